//! Search strategies and the task scheduler: ask for candidates, tell what they measured.
