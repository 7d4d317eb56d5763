use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::id::RunId;
use crate::role::Role;

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9-]{0,8}", "(?s).{0,30}"]
}

fn any_ids() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(any_text(), 0..3)
}

/// Any possible request.
pub(crate) fn any_request() -> impl Strategy<Value = MutationRequest> {
    let id = || option::of(any_text());
    prop_oneof![
        any_text().prop_map(|task| MutationRequest::TaskAdd { task }),
        (id(), option::of(any_text()))
            .prop_map(|(id, no_change)| MutationRequest::TaskDone { id, no_change }),
        any_ids().prop_map(|ids| MutationRequest::TaskAccept { ids }),
        (id(), any_text()).prop_map(|(id, reason)| MutationRequest::TaskReject { id, reason }),
        any_text().prop_map(|id| MutationRequest::TaskDelete { id }),
        Just(MutationRequest::TaskPrioritize),
        id().prop_map(|id| MutationRequest::TaskShow { id }),
        any_text().prop_map(|description| MutationRequest::IssueAdd { description }),
        any_ids().prop_map(|ids| MutationRequest::IssueDone { ids }),
        Just(MutationRequest::IssueDoneAll),
        (any_text(), any::<bool>()).prop_map(|(spec, cancel_unfinished)| {
            MutationRequest::SetSpec { spec, cancel_unfinished }
        }),
    ]
}

fn any_name() -> impl Strategy<Value = RequestName> {
    any::<(u64, u32, u32)>().prop_map(|(sequence, process, nonce)| RequestName {
        sequence,
        process,
        nonce,
    })
}

const NAME: RequestName = RequestName { sequence: 7, process: 42, nonce: 0xab };

#[test]
fn a_request_of_version_one_stays_as_it_is() {
    let done = MutationRequest::TaskDone { id: Some("t-1".to_owned()), no_change: None };
    let text = String::from_utf8(Request::new(NAME, done).render()).unwrap();
    assert_eq!(
        text,
        r#"{"v":1,"id":"00000000000000000007-42-000000ab","args":{"kind":"task_done","id":"t-1"}}"#
    );
    let reply = String::from_utf8(Reply::new(NAME, false, "no".to_owned()).render()).unwrap();
    assert_eq!(
        reply,
        r#"{"v":1,"id":"00000000000000000007-42-000000ab","accepted":false,"text":"no"}"#
    );
}

#[test]
fn only_a_file_of_exactly_that_form_is_a_request() {
    let file = NAME.request_file();
    assert_eq!(file, "00000000000000000007-42-000000ab.req");
    assert_eq!(RequestName::of_file(&file), Some(NAME));
    for other in [
        "",
        ".req",
        "7-42-ab.req",
        "00000000000000000007-42-000000AB.req",
        "00000000000000000007-042-000000ab.req",
        "00000000000000000007-+42-000000ab.req",
        "00000000000000000007-42-000000ab.reply",
        "00000000000000000007-42-000000ab.req.req",
        ".00000000000000000007-42-000000ab.req.tmp",
        "../00000000000000000007-42-000000ab.req",
        "00000000000000000007-42-000000ab-1.req",
        "99999999999999999999-42-000000ab.req",
    ] {
        assert_eq!(RequestName::of_file(other), None, "{other}");
    }
}

#[test]
fn what_is_no_request_is_refused_with_a_reason() {
    let good = Request::new(NAME, MutationRequest::TaskPrioritize).render();
    assert!(Request::parse(NAME, &good).is_ok());
    let other = RequestName { nonce: 1, ..NAME };
    let error = |name, bytes: &[u8]| Request::parse(name, bytes).unwrap_err().to_string();
    assert_eq!(error(other, &good), "it bears the name of another one");
    assert_eq!(error(NAME, &good[..good.len() - 1]), "it cannot be read");
    assert_eq!(error(NAME, b""), "it cannot be read");
    assert_eq!(error(NAME, br#"{"v":2,"what":"else"}"#), "its version is 2, but this Ralph uses 1");
    let unheard =
        br#"{"v":1,"id":"00000000000000000007-42-000000ab","args":{"kind":"task_forge"}}"#;
    assert_eq!(error(NAME, unheard), "it cannot be read");
}

#[test]
fn what_a_role_may_ask_for_is_checked_of_every_id_it_names() {
    let run: RunId = "20261115-203000Z-00000001".parse().unwrap();
    let given = ["i-1".to_owned(), "i-2".to_owned()];
    let asker = |role| Asker { run: &run, role, given: &given };
    let done = |ids: &[&str]| MutationRequest::IssueDone {
        ids: ids.iter().map(ToString::to_string).collect(),
    };
    assert_eq!(done(&["i-1", "i-2"]).check(asker(Role::Investigator)), Ok(()));
    assert_eq!(done(&[]).check(asker(Role::Investigator)), Ok(()));
    let refusal = done(&["i-1", "i-3"]).check(asker(Role::Investigator)).unwrap_err();
    assert!(matches!(refusal, Refusal::NotGiven { id, .. } if id == "i-3"));
    assert!(done(&["i-1"]).check(asker(Role::Builder)).is_err());
    for role in Role::ALL {
        assert_eq!(MutationRequest::TaskShow { id: None }.check(asker(role)), Ok(()));
    }
}

proptest! {
    #[test]
    fn every_request_and_reply_comes_back_as_it_went(
        name in any_name(), args in any_request(), accepted: bool, text in any_text(),
    ) {
        let request = Request::new(name, args);
        prop_assert_eq!(Request::parse(name, &request.render()).unwrap(), request);
        let reply = Reply::new(name, accepted, text);
        prop_assert_eq!(Reply::parse(name, &reply.render()).unwrap(), reply);
        prop_assert_eq!(RequestName::of_file(&name.request_file()), Some(name));
        prop_assert_eq!(RequestName::of_file(&name.reply_file()), None);
    }

    #[test]
    fn names_sort_as_text_by_time(one in any_name(), two in any_name()) {
        prop_assume!(one.sequence != two.sequence);
        prop_assert_eq!(one.cmp(&two), one.to_string().cmp(&two.to_string()));
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
        let _ = Request::parse(NAME, &bytes);
        let _ = Reply::parse(NAME, &bytes);
        let _ = RequestName::of_file(&String::from_utf8_lossy(&bytes));
    }
}
