//! Builds and times candidates in worker processes that can be killed.
