//! The tuning database: samples with their full context in SQLite.
