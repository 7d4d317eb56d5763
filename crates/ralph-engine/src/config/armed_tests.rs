use super::super::schema::SETTINGS;
use super::super::tests::Bench;
use super::super::{BoundaryMode, Isolation};
use super::*;
use crate::config::AgentProgram;
use ralph_model::role::Role;

fn armed(text: &str) -> Vec<String> {
    let bench = Bench::new().workspace_file(text);
    bench.load().armed().iter().map(|key| key.key.clone()).collect()
}

#[test]
fn every_setting_is_known_to_be_armed_or_tame() {
    let below = Layer::defaults();
    let by_value = ["boundary", "isolation", "unix_sockets", "home", "mailbox"];
    let mut list = Vec::new();
    for setting in SETTINGS.iter().filter(|setting| !by_value.contains(&setting.key)) {
        let key = split_key(setting.key);
        let value = SettingValue::List(vec!["../x".to_owned()]);
        let located = Located { value, origin: Origin::Default, rank: Rank::Workspace };
        if is_armed(&key, &located, &below) {
            list.push(setting.key);
        }
    }
    let expected = [
        "agent_cmd",
        "writable",
        "sandbox.show",
        "sandbox.unix",
        "sandbox.namespaces",
        "agents.*.exe",
        "agents.*.args",
        "agents.*.env.*",
        "agents.*.command",
        "agents.*.script",
        "agents.*.state",
        "agents.*.pass",
        "agents.*.resume",
        "env.pass",
        "checkout.setup",
        "checkout.cache",
        "checkout.copy",
        "slots.dir",
        "trust.always",
        "loop.build",
        "notify.on",
        "notify.after",
        "notify.terminal",
        "notify.command",
        "notify.webhook",
    ];
    assert_eq!(list, expected);
}

#[test]
fn what_loosens_is_armed_and_what_tightens_is_not() {
    assert_eq!(armed("boundary = \"kernel\"\nisolation = \"clone\"\nhome = \"r\"\n"), [""; 0]);
    assert_eq!(armed("unix_sockets = false\n[checkout]\ncache = [\"target\"]\n"), [""; 0]);
    let loose =
        "boundary = \"off\"\nisolation = \"in-place\"\nunix_sockets = true\nhome = \"../r\"\n";
    assert_eq!(armed(loose), ["boundary", "home", "isolation", "unix_sockets"]);
    // It exposes the person's untracked files to agents.
    assert_eq!(armed("[checkout]\ncopy = [\".env\"]\n"), ["checkout.copy"]);
    let gate = "[[gate]]\nname = \"a\"\nrun = [\"x\"]\nnet = true\nunix = false\nfast = true\n";
    assert_eq!(armed(gate), ["gate.a.net", "gate.a.run"]);
}

#[test]
fn ignored_keys_are_not_in_force_and_the_rest_is() {
    let bench = Bench::new().workspace_file(
        "agent = \"mine\"\nmodel = \"m\"\nboundary = \"off\"\nwritable = [\"/\"]\n\
         [agents.mine]\ncommand = [\"./evil\"]\n[agents.codex]\nexe = \"./evil\"\n\
         [[gate]]\nname = \"a\"\nrun = [\"./evil\"]\n",
    );
    let config = bench.ignoring_armed_keys().load();
    assert!(!config.is_trusted() && config.gates.is_empty() && config.writable.is_empty());
    assert_eq!(config.boundary, BoundaryMode::Auto);
    let agent = config.agent_for(Role::Builder);
    assert_eq!((agent.program, agent.model.as_deref()), (AgentProgram::Untrusted, Some("m")));
    assert_eq!(config.armed().len(), 5);
}

#[test]
fn a_repository_may_only_tighten_what_the_person_set() {
    let bench = Bench::new().user_file(
        "boundary = \"auto\"\nisolation = \"clone\"\nwritable = [\"/a\", \"/b\"]\nunix_sockets = false\n\
         [budget]\ncost = 5.0\ntokens = 10\n",
    );
    let bench = bench.workspace_file(
        "boundary = \"off\"\nisolation = \"in-place\"\nwritable = [\"/\", \"/a/x\", \"/b\", \"/a/../c\"]\n\
         unix_sockets = true\n[budget]\ncost = 500.0\ntokens = 5\n",
    );
    let config = bench.load();
    assert_eq!((config.boundary, config.isolation), (BoundaryMode::Auto, Isolation::Clone));
    assert_eq!(config.writable, ["/a/x", "/b"]);
    assert_eq!(config.sandbox.unix_sockets, ralph_proc::sandbox::SocketAccess::Denied);
    assert_eq!((config.budget.cost, config.budget.tokens), (Some(5.0), Some(5)));
    let bench = bench.workspace_file("boundary = \"kernel\"\n");
    assert_eq!(bench.load().boundary, BoundaryMode::Kernel);
}

#[test]
fn what_is_the_persons_alone_is_refused_in_a_repository() {
    let bench = Bench::new().workspace_file("[trust]\nalways = [\"/\"]\n");
    assert!(bench.try_load().is_err());
    let bench = bench.user_file("[trust]\nalways = [\".\"]\n").workspace_file("");
    assert!(bench.try_load().is_err(), "a relative path would trust every checkout");
}
