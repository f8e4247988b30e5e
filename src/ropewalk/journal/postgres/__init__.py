"""The store in Postgres, and the tables that workers share: their registry, chunks of maps, and schedules."""
