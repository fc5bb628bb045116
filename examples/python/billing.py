"""The consumer: books each event of an order once. The offset is committed after the transaction, so that an event may come
again; then its row in processed_events is there already."""

import asyncio
import os

from aiokafka import AIOKafkaConsumer
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from tables import Billing, LedgerEntry, ProcessedEvent

engine = create_async_engine(os.environ["DATABASE_URL"].replace("postgres://", "postgresql+asyncpg://").split("?")[0])
Session = async_sessionmaker(engine)


async def book(message) -> None:
    event_id = dict(message.headers)["id"].decode()
    async with Session.begin() as session:
        statement = insert(ProcessedEvent).values(consumer="billing", event_id=event_id).on_conflict_do_nothing()
        if (await session.execute(statement)).rowcount == 1:
            session.add(LedgerEntry(event_id=event_id, order_id=message.key.decode(), body=message.value.decode()))


async def main() -> None:
    async with engine.begin() as connection:
        await connection.run_sync(Billing.metadata.create_all)
    consumer = AIOKafkaConsumer(
        "outbox.event.order",
        bootstrap_servers=os.environ["KAFKA_BROKERS"],
        group_id="billing",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=6000,
        heartbeat_interval_ms=1000,
        metadata_max_age_ms=1000,
    )
    await consumer.start()
    try:
        while True:
            batch = await consumer.getmany(timeout_ms=1000)
            for messages in batch.values():
                for message in messages:
                    await book(message)
            if batch:
                await consumer.commit()  # of all partitions, so only when all of them were handled
    finally:
        await consumer.stop()


asyncio.run(main())
