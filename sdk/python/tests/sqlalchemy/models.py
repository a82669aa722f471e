"""Tables of the tests of the ORM."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Identity, func
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "alchemy_customer"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created: Mapped[datetime] = mapped_column(server_default=func.now())
    purchases: Mapped[list[Purchase]] = relationship(back_populates="customer", cascade="all, delete-orphan")


class Purchase(Base):
    __tablename__ = "alchemy_purchase"
    __table_args__ = (CheckConstraint("cents > 0", name="alchemy_purchase_cents"),)

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    customer_id: Mapped[int] = mapped_column(ForeignKey(Customer.id))
    cents: Mapped[int]
    customer: Mapped[Customer] = relationship(back_populates="purchases")
