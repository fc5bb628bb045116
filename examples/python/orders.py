"""The order service: FastAPI and SQLAlchemy. Each request changes an order and adds the event of it in one transaction."""

import os
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from tables import Order, Outbox, Shop

engine = create_async_engine(os.environ["DATABASE_URL"].replace("postgres://", "postgresql+asyncpg://").split("?")[0])
Session = async_sessionmaker(engine)


@asynccontextmanager
async def lifespan(_: FastAPI):
    async with engine.begin() as connection:
        await connection.run_sync(Shop.metadata.create_all)
    yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


class NewOrder(BaseModel):
    id: str
    amount: int


@app.get("/healthz")
async def healthz() -> dict:
    return {}


@app.post("/orders")
async def create(order: NewOrder) -> dict:
    async with Session.begin() as session:
        statement = insert(Order).values(id=order.id, amount=order.amount, state="created").on_conflict_do_nothing()
        if (await session.execute(statement)).rowcount == 1:  # else a client that got no answer has sent it again
            session.add(Outbox(aggregate_type="order", aggregate_id=order.id, event_type="OrderCreated", payload=order.model_dump()))
    return {"id": order.id}


@app.post("/orders/{order_id}/pay")
async def pay(order_id: str) -> dict:
    async with Session.begin() as session:
        statement = update(Order).where(Order.id == order_id, Order.state == "created").values(state="paid")
        if (await session.execute(statement)).rowcount == 1:
            session.add(Outbox(aggregate_type="order", aggregate_id=order_id, event_type="OrderPaid", payload={"id": order_id}))
    return {"id": order_id}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning")
