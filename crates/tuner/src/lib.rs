//! The tuning loop: asks a strategy, measures, stores, learns; typed events.
