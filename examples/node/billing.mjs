// The consumer: books each event of an order once. The offset is committed after the transaction, so that an event may come
// again; then walrelay.consumed says false.
import { Kafka, logLevel } from 'kafkajs'
import pg from 'pg'

const db = new pg.Pool({ connectionString: process.env.DATABASE_URL })
db.on('error', console.error)
await db.query(`CREATE TABLE IF NOT EXISTS ledger (
  seq bigint GENERATED ALWAYS AS IDENTITY, event_id text, order_id text, body text)`)

async function book({ message }) {
  const id = message.headers.id.toString()
  const client = await db.connect()
  try {
    await client.query('BEGIN')
    const { rows } = await client.query('SELECT walrelay.consumed($1, $2) AS first', ['billing', id])
    if (rows[0].first) {
      await client.query('INSERT INTO ledger (event_id, order_id, body) VALUES ($1, $2, $3)',
        [id, message.key.toString(), message.value.toString()])
    }
    await client.query('COMMIT')
  } catch (err) {
    await client.query('ROLLBACK').catch(() => {})
    throw err // kafkajs tries again
  } finally {
    client.release()
  }
}

const kafka = new Kafka({ clientId: 'billing', brokers: process.env.KAFKA_BROKERS.split(','), logLevel: logLevel.WARN })
const consumer = kafka.consumer({ groupId: 'billing', sessionTimeout: 6000, heartbeatInterval: 1000, metadataMaxAge: 1000 })
await consumer.connect()
await consumer.subscribe({ topics: ['outbox.event.order'], fromBeginning: true })
await consumer.run({ eachMessage: book })
