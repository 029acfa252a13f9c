//! Alerting: background threads that read the store, evaluate rules and detectors with `ogive-detect`, and store,
//! deliver and expose the results.
//!
//! Belongs here: options, threads, delivery to Alertmanagers and webhooks, and the state that the HTTP API shows. Does
//! not belong here: how a rule or a detector decides (`ogive-detect`), HTTP routes.
#![forbid(unsafe_code)]

pub mod alerting;
pub mod backtest_report;
pub mod detection;
pub mod rules_view;
