// The order service: node:http and pg. Each request changes an order and publishes the event of it in one transaction.
import http from 'node:http'
import pg from 'pg'

const db = new pg.Pool({ connectionString: process.env.DATABASE_URL })
db.on('error', console.error)
await db.query('CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, amount integer NOT NULL, state text NOT NULL)')

// change runs a statement and, where it has changed something, publishes the event.
async function change(order, type, payload, statement, args) {
  const client = await db.connect()
  try {
    await client.query('BEGIN')
    const { rowCount } = await client.query(statement, args)
    if (rowCount === 1) { // else a client that got no answer has sent it again
      await client.query('SELECT walrelay.publish($1, $2, $3, $4)', ['order', order, type, JSON.stringify(payload)])
    }
    await client.query('COMMIT')
  } catch (err) {
    await client.query('ROLLBACK').catch(() => {})
    throw err
  } finally {
    client.release()
  }
}

async function handle(request) {
  const path = new URL(request.url, 'http://localhost').pathname
  if (path === '/healthz') return
  if (path === '/orders') {
    const order = JSON.parse(Buffer.concat(await request.toArray()).toString())
    return change(order.id, 'OrderCreated', order,
      "INSERT INTO orders VALUES ($1, $2, 'created') ON CONFLICT DO NOTHING", [order.id, order.amount])
  }
  const [, id] = path.match(/^\/orders\/([^/]+)\/pay$/)
  return change(id, 'OrderPaid', { id }, "UPDATE orders SET state = 'paid' WHERE id = $1 AND state = 'created'", [id])
}

http.createServer((request, response) => {
  handle(request).then(() => response.end(), (err) => {
    console.error(err)
    response.writeHead(503).end('try again')
  })
}).listen(Number(process.env.PORT), '127.0.0.1')
