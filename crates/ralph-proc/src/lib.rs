//! Supervised processes.
