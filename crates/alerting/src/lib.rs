//! Rules, alerts and detectors at work: background threads that read the store, evaluate as `ogive-detect` says, and store, deliver and show
//! what comes of it.
//!
//! What may be in it: options, threads, delivery to Alertmanagers and webhooks, and what the HTTP API shows of all that. What may not: how a
//! rule or a detector judges (`ogive-detect`), HTTP routes.
#![forbid(unsafe_code)]

pub mod alerting;
pub mod backtest_report;
pub mod detection;
pub mod rules_view;
