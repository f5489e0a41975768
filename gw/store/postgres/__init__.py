"""PostgreSQL as the database of one gateway or several: `postgres_store.open_postgres_store`."""
