use proptest::prelude::*;

use super::*;
use crate::checks::{CheckChange, CheckClass};
use crate::evidence::samples::{commit, tree};
use crate::gate::{BuiltIn, Check, Obstacle};
use crate::glob::Glob;
use crate::run::ProcessExit;

/// In the format of the first version.
fn sample() -> Receipt {
    Receipt {
        version: Version::One,
        created_at: "2026-11-15T20:30:00Z".parse().unwrap(),
        ralph: "0.1.0".to_owned(),
        item: "specs/0001-sum.md".to_owned(),
        base: Point { commit: commit('a'), tree: tree('b') },
        candidate: Point { commit: commit('c'), tree: tree('d') },
        worker: Worker { agent: "codex".to_owned(), model: Some("large".to_owned()) },
        boundary: BoundaryInForce::Kernel,
        setup: vec![vec!["npm".to_owned(), "ci".to_owned()]],
        caches: Caches::Warm { paths: vec!["node_modules".to_owned()] },
        level: None,
        checks: vec![],
        gates: vec![GateReceipt {
            gate: GateSpec {
                name: "tests".to_owned(),
                check: Check::Command { argv: vec!["npm".to_owned(), "test".to_owned()] },
                timeout: Duration::from_mins(30),
                repo: None,
                paths: vec![Glob::new("src/**")],
                fast: true,
                net: false,
                unix: false,
            },
            result: GateStatus::Passed,
            duration: Duration::from_millis(1234),
            output_sha256: "ab".repeat(32),
            tests: Some(TestCounts { passed: 12, failed: 0, skipped: 1 }),
            finding: Attribution::Passed,
        }],
        verifier: Some(VerifierReceipt {
            agent: "claude".to_owned(),
            model: None,
            opinion: Opinion::Verified,
        }),
    }
}

/// The format as it is stored in users' repositories: it must stay readable.
const VERSION_1: &str = r#"{
  "version": 1,
  "created_at": "2026-11-15T20:30:00Z",
  "ralph": "0.1.0",
  "item": "specs/0001-sum.md",
  "base": {
    "commit": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "tree": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
  },
  "candidate": {
    "commit": "cccccccccccccccccccccccccccccccccccccccc",
    "tree": "dddddddddddddddddddddddddddddddddddddddd"
  },
  "worker": {
    "agent": "codex",
    "model": "large"
  },
  "boundary": "kernel",
  "setup": [
    [
      "npm",
      "ci"
    ]
  ],
  "caches": {
    "state": "warm",
    "paths": [
      "node_modules"
    ]
  },
  "gates": [
    {
      "gate": {
        "name": "tests",
        "argv": [
          "npm",
          "test"
        ],
        "timeout_ms": 1800000,
        "paths": [
          "src/**"
        ],
        "fast": true
      },
      "result": {
        "status": "passed"
      },
      "duration_ms": 1234,
      "output_sha256": "abababababababababababababababababababababababababababababababab",
      "tests": {
        "passed": 12,
        "failed": 0,
        "skipped": 1
      },
      "finding": {
        "attribution": "passed"
      }
    }
  ],
  "verifier": {
    "agent": "claude",
    "opinion": "verified"
  }
}
"#;

#[test]
fn a_receipt_of_version_1_looks_like_this() {
    assert_eq!(sample().render(), VERSION_1);
    assert_eq!(Receipt::parse(VERSION_1).unwrap(), sample());
}

#[test]
fn a_receipt_of_version_2_tells_the_level_and_who_agreed_with_changed_checks() {
    let check = |path: &str| ChangedCheck {
        path: path.to_owned(),
        class: CheckClass::Test,
        change: CheckChange::Changed,
    };
    let quote = "the total is rounded to two digits".to_owned();
    let said = CheckOpinion::Asked { quote: quote.clone() };
    let consents = [
        CheckConsent::Nobody,
        CheckConsent::Allowed { pattern: "tests/old/**".to_owned() },
        CheckConsent::Verifier { said },
        CheckConsent::Person,
    ];
    let checks =
        consents.map(|agreed| CheckReceipt { check: check("tests/total.py"), agreed }).to_vec();
    let level = Some(ProofLevel::ChecksChanged);
    let receipt = Receipt { version: Version::Two, level, checks, ..sample() };
    let text = receipt.render();
    assert_eq!(Receipt::parse(&text).unwrap(), receipt);
    for told in ["\"version\": 2", "\"level\": \"checks_changed\"", "\"by\": \"verifier\"", &quote]
    {
        assert!(text.contains(told), "{told}: {text}");
    }
    // The first version had neither field.
    let older = text.replace("\"version\": 2", "\"version\": 1");
    assert!(matches!(Receipt::parse(&older), Err(ReceiptError::Unknown { .. })));
    let hidden = text.replace("\"by\": \"person\"", "\"by\": \"person\", \"if\": \"x\"");
    assert!(matches!(Receipt::parse(&hidden), Err(ReceiptError::Unknown { .. })));
}

#[test]
fn what_is_left_out_when_empty_may_be_written_out() {
    let text = VERSION_1.replace("\"fast\": true", "\"fast\": true, \"net\": false");
    assert_eq!(Receipt::parse(&text).unwrap(), sample());
}

#[test]
fn unknown_fields_are_refused_wherever_they_stand() {
    for (old, new) in [
        ("\"version\": 1,", "\"version\": 1, \"extra\": 1,"),
        ("\"agent\": \"codex\"", "\"agent\": \"codex\", \"extra\": 1"),
        ("\"timeout_ms\"", "\"extra\": 1, \"timeout_ms\""),
        ("\"status\": \"passed\"", "\"status\": \"passed\", \"extra\": 1"),
        ("\"attribution\": \"passed\"", "\"attribution\": \"passed\", \"extra\": \"x\""),
        ("\"state\": \"warm\"", "\"state\": \"warm\", \"extra\": [1]"),
        ("\"skipped\": 1", "\"skipped\": 1, \"extra\": 1"),
    ] {
        let error = Receipt::parse(&VERSION_1.replacen(old, new, 1)).unwrap_err();
        let chain = format!("{error} {:?}", std::error::Error::source(&error));
        assert!(chain.contains("extra"), "{new}: {chain}");
    }
}

#[test]
fn a_newer_version_is_named_as_such_whatever_else_it_holds() {
    let error = Receipt::parse(r#"{"version": 3, "all": "new"}"#).unwrap_err();
    assert_eq!(error.to_string(), "it was written by a newer Ralph (version 3; this one reads 2)");
    for text in
        ["", "{}", "[]", "{\"version\": 0}", &VERSION_1.replace("\"version\": 1", "\"version\": 0")]
    {
        assert!(matches!(Receipt::parse(text), Err(ReceiptError::Malformed(_))), "{text}");
    }
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,12}"
}

fn status() -> impl Strategy<Value = GateStatus> {
    prop_oneof![
        Just(GateStatus::Passed),
        Just(GateStatus::TimedOut),
        Just(GateStatus::ProvedNothing),
        any::<i32>().prop_map(|code| GateStatus::Failed { exit: ProcessExit::Code(code) }),
        any::<i32>().prop_map(|signal| GateStatus::Failed { exit: ProcessExit::Signal(signal) }),
        text()
            .prop_map(|message| GateStatus::CouldNotRun { obstacle: Obstacle::Setup { message } }),
    ]
}

fn finding() -> impl Strategy<Value = Attribution> {
    prop_oneof![
        Just(Attribution::Passed),
        Just(Attribution::ProvedNothing),
        Just(Attribution::Flaky),
        Just(Attribution::RedBeforeAndAfter),
        Just(Attribution::Regressed),
        Just(Attribution::Failed),
        (any::<u64>(), any::<Option<u64>>())
            .prop_map(|(base, candidate)| Attribution::FewerTests { base, candidate }),
        text()
            .prop_map(|program| Attribution::Broken { obstacle: Obstacle::NoProgram { program } }),
        text().prop_map(|message| Attribution::CouldNotRun {
            obstacle: Obstacle::Machine { message }
        }),
    ]
}

fn gate() -> impl Strategy<Value = GateReceipt> {
    let check = prop_oneof![
        prop::collection::vec(text(), 0..3).prop_map(|argv| Check::Command { argv }),
        Just(Check::BuiltIn(BuiltIn::PlanDiff)),
    ];
    let spec = (
        text(),
        check,
        0..u64::from(u32::MAX),
        prop::collection::vec("[a-z*/?]{0,8}", 0..3),
        prop::array::uniform3(any::<bool>()),
    )
        .prop_map(|(name, check, timeout, paths, [fast, net, unix])| GateSpec {
            name,
            check,
            timeout: Duration::from_millis(timeout),
            repo: None,
            paths: paths.into_iter().map(Glob::new).collect(),
            fast,
            net,
            unix,
        });
    let tests = prop::option::of(
        (any::<u64>(), any::<u64>(), any::<u64>())
            .prop_map(|(passed, failed, skipped)| TestCounts { passed, failed, skipped }),
    );
    (spec, status(), 0..u64::from(u32::MAX), "[0-9a-f]{64}", tests, finding()).prop_map(
        |(gate, result, duration, output_sha256, tests, finding)| GateReceipt {
            gate,
            result,
            duration: Duration::from_millis(duration),
            output_sha256,
            tests,
            finding,
        },
    )
}

fn receipt() -> impl Strategy<Value = Receipt> {
    let boundary = prop::sample::select(vec![
        BoundaryInForce::Kernel,
        BoundaryInForce::Detect,
        BoundaryInForce::Off,
    ]);
    let caches = prop_oneof![
        Just(Caches::Cold),
        prop::collection::vec(text(), 0..3).prop_map(|paths| Caches::Warm { paths }),
    ];
    let verifier = prop::option::of((text(), prop::option::of(text()), any::<bool>()).prop_map(
        |(agent, model, verified)| VerifierReceipt {
            agent,
            model,
            opinion: if verified { Opinion::Verified } else { Opinion::Overruled },
        },
    ));
    let setup = prop::collection::vec(prop::collection::vec(text(), 0..3), 0..3);
    let seconds = -1_000_000_000..4_000_000_000_i64;
    (
        (seconds, text(), text(), text(), prop::option::of(text())),
        (boundary, setup, caches),
        prop::collection::vec(gate(), 0..4),
        verifier,
    )
        .prop_map(
            |((seconds, ralph, item, agent, model), (boundary, setup, caches), gates, verifier)| {
                Receipt {
                    created_at: Timestamp::from_second(seconds).unwrap(),
                    ralph,
                    item,
                    worker: Worker { agent, model },
                    boundary,
                    setup,
                    caches,
                    gates,
                    verifier,
                    ..sample()
                }
            },
        )
}

proptest! {
    #[test]
    fn a_receipt_is_read_back_as_it_was_written(receipt in receipt()) {
        prop_assert_eq!(Receipt::parse(&receipt.render()).unwrap(), receipt);
    }

    #[test]
    fn any_text_is_a_receipt_or_an_error(text in "\\PC{0,80}", at in 0..VERSION_1.len()) {
        prop_assert!(Receipt::parse(&text).is_err());
        let spoilt = format!("{}{text}{}", &VERSION_1[..at], &VERSION_1[at..]);
        if let Ok(receipt) = Receipt::parse(&spoilt) {
            prop_assert_eq!(Receipt::parse(&receipt.render()).unwrap(), receipt);
        }
    }
}
