//! The tests with real processes: real git, real agent CLIs, a scripted model on loopback.
//!
//! One binary, so that shared code is compiled once and unused code is noticed.

#[cfg(test)]
mod agent_files;
#[cfg(test)]
mod build;
#[cfg(test)]
mod channel;
#[cfg(test)]
mod clones;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod detection;
#[cfg(test)]
mod escapes;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod first_hour;
#[cfg(test)]
mod follow;
#[cfg(test)]
mod forgery;
#[cfg(test)]
mod gate_bounds;
#[cfg(test)]
mod gates;
#[cfg(test)]
mod goal;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod hostile_text;
#[cfg(test)]
mod in_place;
#[cfg(test)]
mod in_place_home;
#[cfg(test)]
mod in_place_killed;
#[cfg(test)]
mod in_place_person;
#[cfg(test)]
mod in_place_stash;
#[cfg(test)]
mod kept_work;
#[cfg(test)]
mod landing;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod lost_state;
#[cfg(test)]
mod model_server_tests;
#[cfg(test)]
mod money;
#[cfg(test)]
mod names;
#[cfg(test)]
mod notices;
#[cfg(test)]
mod person;
#[cfg(test)]
mod phased;
#[cfg(test)]
mod pipeline;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod private_state;
#[cfg(test)]
mod receipts;
#[cfg(test)]
mod red_merge;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod repository_kinds;
mod runs;
#[cfg(test)]
mod screens;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod slot_attacks;
#[cfg(test)]
mod slots;
#[cfg(test)]
mod start_gates;
#[cfg(test)]
mod status;
#[cfg(test)]
mod supervision;
#[cfg(test)]
mod support;
#[cfg(test)]
mod support_tests;
#[cfg(test)]
mod tidy;
#[cfg(test)]
mod trust;
#[cfg(test)]
mod unlanded;
#[cfg(test)]
mod unsound;
#[cfg(test)]
mod variables;
mod withdrawn;
