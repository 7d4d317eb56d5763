//! The expected result of each recording. Tokens, costs and times are those that the scripted model reported to the
//! CLI.

use ralph_model::event::ErrorKind;

use super::{Limit, Row, SILENT, used};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "claude-allowedtools",
        session: Some("922a5bc2-2918-469e-8110-009855ce0a02"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(2000, 1500, 20),
        micro_dollars: Some(6750),
        context: Some((3500, Some(200_000))),
        ..SILENT
    },
    Row {
        name: "claude-badresume",
        micro_dollars: Some(0),
        error: Some((
            ErrorKind::UnknownSession,
            "No conversation found with session ID: 11111111-2222-4333-8444-555555555555",
        )),
        ..SILENT
    },
    Row {
        name: "claude-credit400",
        session: Some("698e082d-512f-462c-a7c9-064356084b67"),
        micro_dollars: Some(0),
        error: Some((ErrorKind::Billing, "Credit balance is too low")),
        ..SILENT
    },
    Row {
        name: "claude-dropmid",
        session: Some("8b73cfab-330a-42ab-aba5-83bc51fe2020"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(2000, 1500, 20),
        micro_dollars: Some(6750),
        context: Some((3500, Some(200_000))),
        ..SILENT
    },
    Row {
        name: "claude-err401",
        session: Some("c79569cd-a937-4d68-ab67-e268c342dc48"),
        micro_dollars: Some(0),
        error: Some((ErrorKind::Auth, "Invalid API key · Fix external API key")),
        retries: 10,
        fatal: Some(ErrorKind::Auth),
        ..SILENT
    },
    Row {
        name: "claude-err500",
        session: Some("8bf37000-1e83-4129-83af-6d06c156b111"),
        micro_dollars: Some(0),
        error: Some((
            ErrorKind::Server,
            "API Error: 500 Internal server error. This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:42241).",
        )),
        retries: 10,
        ..SILENT
    },
    Row {
        name: "claude-landlock-configdir",
        session: Some("ae490afb-1b00-4f64-ae5e-3e50578ff44b"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(200, 20, 14),
        micro_dollars: Some(816),
        context: Some((110, Some(200_000))),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "claude-landlock-home-dir",
        session: Some("b017ca8d-48f1-412a-b2ec-d06c5041953a"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(200, 20, 14),
        micro_dollars: Some(816),
        context: Some((110, Some(200_000))),
        tool_calls: 1,
        ..SILENT
    },
    Row { name: "claude-landlock-no-tmp", ..SILENT },
    Row {
        name: "claude-noperm",
        session: Some("b0e3df20-c577-46b8-9308-c0150dd2e6d1"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(3234, 2500, 76),
        micro_dollars: Some(11_592),
        context: Some((3500, Some(200_000))),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "claude-oauth-401",
        session: Some("3b3c8738-bf9f-4369-8b02-6945708eb81a"),
        micro_dollars: Some(0),
        error: Some((
            ErrorKind::Auth,
            "Failed to authenticate. API Error: 401 OAuth token has expired.",
        )),
        retries: 2,
        fatal: Some(ErrorKind::Auth),
        ..SILENT
    },
    Row {
        name: "claude-oauth-limit-5h",
        session: Some("d6fb9d26-e5ba-4015-ad7d-a98b21090a8a"),
        micro_dollars: Some(0),
        limit: Limit::Until("2026-11-15T19:34:43Z"),
        error: Some((ErrorKind::UsageLimit, "You've hit your limit · resets 7:34pm (UTC)")),
        ..SILENT
    },
    Row {
        name: "claude-oauth-warning",
        session: Some("eca570c7-c473-47dd-8066-828125cd57a6"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(200, 20, 14),
        micro_dollars: Some(816),
        context: Some((110, Some(200_000))),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "claude-overloaded529",
        session: Some("c9328fee-b8e1-48c2-9a3c-52815c4d08dc"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(2000, 1500, 20),
        micro_dollars: Some(6750),
        context: Some((3500, Some(200_000))),
        retries: 3,
        ..SILENT
    },
    Row {
        name: "claude-ratelimit-429",
        session: Some("58cf4b7e-5dd9-4dc6-9b8e-3a0aa1dafee9"),
        micro_dollars: Some(0),
        limit: Limit::UntilUnknown,
        error: Some((
            ErrorKind::UsageLimit,
            "API Error: Request rejected (429) · This request would exceed your organization's rate limit of 50,000 input tokens per minute.",
        )),
        retries: 10,
        ..SILENT
    },
    Row {
        name: "claude-ratelimit-unified",
        session: Some("48a77fa0-cf79-417f-affe-e1eaeee18308"),
        micro_dollars: Some(0),
        limit: Limit::UntilUnknown,
        error: Some((
            ErrorKind::UsageLimit,
            "API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later.",
        )),
        ..SILENT
    },
    Row {
        name: "claude-resume",
        session: Some("a3fa5895-1280-4a2f-9059-8a3afa1a2677"),
        last_word: Some("Resumed fine. TASK_COMPLETE"),
        usage: used(200, 20, 14),
        micro_dollars: Some(816),
        context: Some((110, Some(200_000))),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "claude-resume-after-sigterm",
        session: Some("ebb4b5a9-5378-43d6-a00c-9dfc82f77412"),
        last_word: Some("Resumed after kill."),
        usage: used(100, 10, 7),
        micro_dollars: Some(408),
        context: Some((110, Some(200_000))),
        ..SILENT
    },
    Row {
        name: "claude-sigint",
        session: Some("50260178-cc46-4f93-9b05-ca2bc69058c9"),
        usage: used(100, 10, 7),
        micro_dollars: Some(408),
        context: Some((110, Some(200_000))),
        error: Some((
            ErrorKind::Interrupted,
            "[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=tool_use",
        )),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "claude-sigkill",
        session: Some("48725131-d013-4167-b261-7ba9ee207e13"),
        usage: used(100, 10, 1),
        context: Some((110, None)),
        tool_calls: 1,
        open_tools: &["toolu_77e325616a494db3"],
        ..SILENT
    },
    Row {
        name: "claude-sigterm",
        session: Some("ebb4b5a9-5378-43d6-a00c-9dfc82f77412"),
        usage: used(100, 10, 1),
        context: Some((110, None)),
        tool_calls: 1,
        open_tools: &["toolu_cf28bdd3ac7d4649"],
        ..SILENT
    },
    Row {
        name: "claude-sigtermgroup",
        session: Some("6e044722-f09f-4f99-8317-1ef610b26e67"),
        usage: used(100, 10, 1),
        context: Some((110, None)),
        tool_calls: 1,
        open_tools: &["toolu_4e68dc442033443e"],
        ..SILENT
    },
    Row {
        name: "claude-success",
        session: Some("a3fa5895-1280-4a2f-9059-8a3afa1a2677"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(3234, 2500, 76),
        micro_dollars: Some(11_592),
        context: Some((3500, Some(200_000))),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "claude-toolfail",
        session: Some("b0ad12e5-d23a-408f-b658-58cd3964ea49"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(2100, 1510, 27),
        micro_dollars: Some(7158),
        context: Some((3500, Some(200_000))),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "claude-unreachable",
        session: Some("0de2a858-2ee3-4df5-9f25-57a5ee5280c4"),
        micro_dollars: Some(0),
        error: Some((
            ErrorKind::Network,
            "API Error: Unable to connect to API (ConnectionRefused)",
        )),
        retries: 10,
        ..SILENT
    },
    Row {
        name: "claudelatest-noperm",
        session: Some("35cf35c3-9ba3-424c-a1cc-0312e365815a"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(3234, 2500, 76),
        micro_dollars: Some(11_592),
        context: Some((3500, Some(200_000))),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "claudelatest-oauth-401",
        session: Some("4e7d5916-47e5-4e32-8d6a-20aae59bc202"),
        micro_dollars: Some(0),
        error: Some((
            ErrorKind::Auth,
            "Failed to authenticate. API Error: 401 OAuth token has expired.",
        )),
        retries: 2,
        fatal: Some(ErrorKind::Auth),
        ..SILENT
    },
    Row {
        name: "claudelatest-oauth-limit-5h",
        session: Some("e52c2b20-812f-41b3-9a03-3b5b6f5100b5"),
        micro_dollars: Some(0),
        limit: Limit::Until("2026-11-15T19:37:57Z"),
        error: Some((ErrorKind::UsageLimit, "You've hit your limit · resets 7:37pm (UTC)")),
        ..SILENT
    },
    Row {
        name: "claudelatest-oauth-warning",
        session: Some("939318aa-3889-4763-b997-daa0d110b1ed"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(200, 20, 14),
        micro_dollars: Some(816),
        context: Some((110, Some(200_000))),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "claudelatest-ratelimit-unified",
        session: Some("44910f44-cdfe-4800-b260-4f494331028f"),
        micro_dollars: Some(0),
        limit: Limit::UntilUnknown,
        error: Some((
            ErrorKind::UsageLimit,
            "API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later.",
        )),
        ..SILENT
    },
    Row {
        name: "claudelatest-resume",
        session: Some("d48512c8-16a7-4f09-852e-e40c9d0f9775"),
        last_word: Some("Resumed fine. TASK_COMPLETE"),
        usage: used(200, 20, 14),
        micro_dollars: Some(816),
        context: Some((110, Some(200_000))),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "claudelatest-resume-after-sigterm",
        session: Some("0da012ed-8325-4783-9c92-0e022ab775a1"),
        last_word: Some("Resumed after kill."),
        usage: used(100, 10, 7),
        micro_dollars: Some(408),
        context: Some((110, Some(200_000))),
        ..SILENT
    },
    Row {
        name: "claudelatest-sigint",
        session: Some("a7c5ace7-d72e-4021-9172-86eb3d810752"),
        usage: used(100, 10, 7),
        micro_dollars: Some(408),
        context: Some((110, Some(200_000))),
        error: Some((
            ErrorKind::Interrupted,
            "[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=tool_use",
        )),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "claudelatest-sigterm",
        session: Some("0da012ed-8325-4783-9c92-0e022ab775a1"),
        usage: used(100, 10, 1),
        context: Some((110, None)),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "claudelatest-success",
        session: Some("d48512c8-16a7-4f09-852e-e40c9d0f9775"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(3234, 2500, 76),
        micro_dollars: Some(11_592),
        context: Some((3500, Some(200_000))),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "codex-badresume",
        error: Some((
            ErrorKind::UnknownSession,
            "Error: thread/resume: thread/resume failed: no rollout found for thread id 11111111-2222-4333-8444-555555555555 (code -32600)",
        )),
        ..SILENT
    },
    Row {
        name: "codex-builtin-openai-provider",
        session: Some("01a1e090-732a-7380-b30c-ce71dfac2800"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(590, 1510, 27),
        usage_is_cumulative: true,
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "codex-context",
        session: Some("01a1e07c-c1af-7c81-a033-5fa33e154ee6"),
        error: Some((
            ErrorKind::Context,
            "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.",
        )),
        ..SILENT
    },
    Row {
        name: "codex-dropmid",
        session: Some("01a1e07f-ef95-7f62-a3aa-e3e12e4027d1"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(500, 1500, 20),
        usage_is_cumulative: true,
        retries: 1,
        ..SILENT
    },
    Row {
        name: "codex-err401",
        session: Some("01a1e07c-3e2d-7bd0-925d-fc6f9a82be94"),
        error: Some((
            ErrorKind::Auth,
            "unexpected status 401 Unauthorized: Incorrect API key provided: dummy., url: http://127.0.0.1:37129/v1/responses",
        )),
        retries: 5,
        fatal: Some(ErrorKind::Auth),
        ..SILENT
    },
    Row {
        name: "codex-err500",
        session: Some("01a1e07c-5ced-7750-b33d-10b85c87113c"),
        error: Some((
            ErrorKind::Server,
            "We’re currently experiencing high demand, which may cause temporary errors.",
        )),
        retries: 5,
        ..SILENT
    },
    Row {
        name: "codex-known-model-gpt-5.5",
        session: Some("01a1e096-c45c-7510-9558-d02b8bd815f2"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(180, 20, 14),
        usage_is_cumulative: true,
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "codex-known-model-gpt-6-sol",
        session: Some("01a1e096-d2fe-7893-a176-ac42e9a662f5"),
        last_word: Some("aux"),
        usage: used(90, 10, 7),
        usage_is_cumulative: true,
        ..SILENT
    },
    Row {
        name: "codex-landlock-bypass",
        session: Some("01a1e084-aea4-7a70-8dbf-426060cfad79"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(180, 20, 14),
        usage_is_cumulative: true,
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "codex-landlock-danger-full-access",
        session: Some("01a1e08b-a526-7bb0-9cde-f923a459593b"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(180, 20, 14),
        usage_is_cumulative: true,
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "codex-landlock-legacy-landlock",
        session: Some("01a1e08b-7447-7f31-86bd-660c061eddf4"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(180, 20, 14),
        usage_is_cumulative: true,
        ..SILENT
    },
    Row {
        name: "codex-landlock-no-tmp",
        session: Some("01a1e084-e3e1-7341-910d-e877c43fd5da"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(180, 20, 14),
        usage_is_cumulative: true,
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "codex-landlock-own-sandbox",
        session: Some("01a1e084-c8b9-7353-afd0-0a2563d5ba58"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(180, 20, 14),
        usage_is_cumulative: true,
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "codex-landlock-own-sandbox-proc",
        session: Some("01a1e08b-8b76-7c42-bd32-a714a5183553"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(180, 20, 14),
        usage_is_cumulative: true,
        ..SILENT
    },
    Row {
        name: "codex-midturn429",
        session: Some("01a1e07e-6486-77c0-a823-4ec0a88c67dc"),
        limit: Limit::Until("2026-11-15T19:35:00Z"),
        error: Some((
            ErrorKind::UsageLimit,
            "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit https://chatgpt.com/settings/usage to purchase more credits or try again at 7:35 PM.",
        )),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "codex-noperm",
        session: Some("01a1e07e-f071-7e33-86a4-bb190469279f"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(734, 2500, 76),
        usage_is_cumulative: true,
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "codex-own-sandbox-no-landlock",
        session: Some("01a1e084-fffe-70c1-a6fc-a5afc62ae66b"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(180, 20, 14),
        usage_is_cumulative: true,
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "codex-quota-sse",
        session: Some("01a1e07c-396d-7250-85e1-375a9150157b"),
        error: Some((ErrorKind::Billing, "Quota exceeded. Check your plan and billing details.")),
        ..SILENT
    },
    Row {
        name: "codex-ratelimit-429",
        session: Some("01a1e07b-c6de-7aa3-acca-851ca72bf51d"),
        limit: Limit::UntilUnknown,
        error: Some((
            ErrorKind::UsageLimit,
            "exceeded retry limit, last status: 429 Too Many Requests",
        )),
        retries: 5,
        ..SILENT
    },
    Row {
        name: "codex-ratelimit-sse",
        session: Some("01a1e07c-065f-7873-92f2-dd9268f1efa5"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(500, 1500, 20),
        usage_is_cumulative: true,
        retries: 2,
        ..SILENT
    },
    Row {
        name: "codex-ratelimit-usage",
        session: Some("01a1e07b-c2b0-76e0-9622-06da5208cd27"),
        limit: Limit::Until("2026-11-15T19:32:00Z"),
        error: Some((
            ErrorKind::UsageLimit,
            "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit https://chatgpt.com/settings/usage to purchase more credits or try again at 7:32 PM.",
        )),
        ..SILENT
    },
    Row {
        name: "codex-resume",
        session: Some("01a1e07b-7b72-7561-b493-5278db47a22e"),
        last_word: Some("Resumed fine. TASK_COMPLETE"),
        usage: used(914, 2520, 90),
        usage_is_cumulative: true,
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "codex-resume-after-sigterm",
        session: Some("01a1e07e-6928-76e2-bb78-0e19620c15ec"),
        last_word: Some("Resumed after kill."),
        usage: used(90, 10, 7),
        usage_is_cumulative: true,
        ..SILENT
    },
    Row {
        name: "codex-sigint",
        session: Some("01a1e07e-8dfb-7950-adce-4b91dbd49132"),
        error: Some((
            ErrorKind::Other,
            "2026-11-15T18:35:54.145608Z ERROR codex_core::session: failed to record rollout items: thread 01a1e07e-8dfb-7950-adce-4b91dbd49132 not found",
        )),
        tool_calls: 1,
        open_tools: &["item_2"],
        ..SILENT
    },
    Row {
        name: "codex-sigkill",
        session: Some("01a1e07e-9bf6-7f60-8426-5dc867977c16"),
        tool_calls: 1,
        open_tools: &["item_2"],
        ..SILENT
    },
    Row {
        name: "codex-sigterm",
        session: Some("01a1e07e-6928-76e2-bb78-0e19620c15ec"),
        tool_calls: 1,
        open_tools: &["item_2"],
        ..SILENT
    },
    Row {
        name: "codex-sigtermgroup",
        session: Some("01a1e07e-abd2-7e42-8abf-3d737395abd3"),
        tool_calls: 1,
        open_tools: &["item_2"],
        ..SILENT
    },
    Row {
        name: "codex-success",
        session: Some("01a1e07b-7b72-7561-b493-5278db47a22e"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(734, 2500, 76),
        usage_is_cumulative: true,
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "codex-toolfail",
        session: Some("01a1e07f-d66c-7172-a77f-f0a52d523bf6"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(590, 1510, 27),
        usage_is_cumulative: true,
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "codex-unreachable",
        session: Some("01a1e07c-c61d-7362-9fe1-a3ba8ee2afca"),
        retries: 6,
        ..SILENT
    },
    Row {
        name: "gemini-badresume",
        error: Some((
            ErrorKind::UnknownSession,
            "Error resuming session: No previous sessions found for this project.",
        )),
        ..SILENT
    },
    Row {
        name: "gemini-err401",
        session: Some("0764d81f-6b27-4228-9404-b167c74f743b"),
        error: Some((
            ErrorKind::Auth,
            "[API Error: {\"error\":{\"code\":400,\"message\":\"API key not valid. Please pass a valid API key.\",\"status\":\"INVALID_ARGUMENT\",\"details\":[{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":\"API_KEY_INVALID\",\"domain\":\"googleapis.com\"}]}}]",
        )),
        ..SILENT
    },
    Row {
        name: "gemini-err500",
        session: Some("34a780dd-aa23-4484-b398-dc742b6dd388"),
        retries: 5,
        ..SILENT
    },
    Row {
        name: "gemini-landlock-dotgemini",
        session: Some("9c6b9c18-0faa-48c7-81ce-75b1775ef3e5"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(180, 20, 14),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "gemini-noperm",
        session: Some("b4b8bb81-b73a-45c2-8db3-7d1d3cc74d60"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(734, 2500, 88),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "gemini-ratelimit-429",
        session: Some("e58ba57f-7352-4b00-8b90-a479e3f09465"),
        retries: 6,
        ..SILENT
    },
    Row {
        name: "gemini-ratelimit-day",
        session: Some("6c11740c-1c12-4f84-b734-61901a8c47ba"),
        limit: Limit::UntilUnknown,
        error: Some((
            ErrorKind::UsageLimit,
            "[API Error: You have exhausted your daily quota on this model.]\nPlease wait and try again later. To increase your limits, request a quota increase through AI Studio, or switch to another /auth method",
        )),
        ..SILENT
    },
    Row {
        name: "gemini-resume",
        session: Some("b1447f88-1151-437f-b7c1-92e339166a4a"),
        last_word: Some("Resumed fine. TASK_COMPLETE"),
        usage: used(180, 20, 14),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "gemini-resume-after-sigterm",
        session: Some("db241c10-1178-4cb8-af4e-580d5f853a48"),
        last_word: Some("Resumed after kill."),
        usage: used(90, 10, 7),
        ..SILENT
    },
    Row {
        name: "gemini-sigint",
        session: Some("05d69fd6-9c12-49f2-b4f8-b428f17f4d52"),
        tool_calls: 1,
        open_tools: &["run_shell_command__fc_a888a836"],
        ..SILENT
    },
    Row {
        name: "gemini-sigterm",
        session: Some("db241c10-1178-4cb8-af4e-580d5f853a48"),
        tool_calls: 1,
        open_tools: &["run_shell_command__fc_e53f52c9"],
        ..SILENT
    },
    Row {
        name: "gemini-success",
        session: Some("b1447f88-1151-437f-b7c1-92e339166a4a"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(734, 2500, 88),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "gemini-toolfail",
        session: Some("4319cafa-c163-4fa8-b9ea-1c6caf1e9081"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(590, 1510, 27),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "gemini-unreachable",
        session: Some("6fc689e2-86b7-4890-b1b6-5d649b42bb76"),
        retries: 5,
        ..SILENT
    },
    Row {
        name: "opencode-badresume",
        error: Some((ErrorKind::UnknownSession, "Error: Session not found")),
        ..SILENT
    },
    Row {
        name: "opencode-err401",
        session: Some("ses_e1f75039bffefHqhPh9tcO4D1f"),
        error: Some((ErrorKind::Auth, "Incorrect API key provided")),
        ..SILENT
    },
    Row {
        name: "opencode-err500",
        session: Some("ses_e1f74ce75ffeUWiCXvmsvxgg8n"),
        error: Some((ErrorKind::Server, "The server had an error")),
        ..SILENT
    },
    Row {
        name: "opencode-landlock-xdg",
        session: Some("ses_e1f75034cffea4iDX92yFcYWnD"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(180, 20, 14),
        micro_dollars: Some(208),
        context: Some((100, None)),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "opencode-noperm",
        session: Some("ses_e1f716d8affewIxNbGmkfU93pf"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(734, 2500, 76),
        micro_dollars: Some(886),
        context: Some((2000, None)),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "opencode-ratelimit-429",
        session: Some("ses_e1f76e5e7ffepyIDRGlqwZAyR9"),
        limit: Limit::Until("2026-11-15T18:47:51.834Z"),
        error: Some((ErrorKind::UsageLimit, "Rate limit reached. Please try again in 3s.")),
        ..SILENT
    },
    Row { name: "opencode-ratelimit-hour", ..SILENT },
    Row {
        name: "opencode-resume",
        session: Some("ses_e1f80da46ffek0Cco8tgAmcWX2"),
        last_word: Some("Resumed fine. TASK_COMPLETE"),
        usage: used(180, 20, 14),
        micro_dollars: Some(208),
        context: Some((100, None)),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "opencode-resume-after-sigterm",
        session: Some("ses_e1f724d1cffe0cJLP0fT68hv1V"),
        last_word: Some("Resumed after kill."),
        usage: used(90, 10, 7),
        micro_dollars: Some(104),
        context: Some((100, None)),
        ..SILENT
    },
    Row { name: "opencode-sigint", session: Some("ses_e1f71bf13ffeUjlhGBNAcgsq1u"), ..SILENT },
    Row { name: "opencode-sigterm", session: Some("ses_e1f724d1cffe0cJLP0fT68hv1V"), ..SILENT },
    Row {
        name: "opencode-success",
        session: Some("ses_e1f80da46ffek0Cco8tgAmcWX2"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(734, 2500, 76),
        micro_dollars: Some(886),
        context: Some((2000, None)),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "opencode-toolfail",
        session: Some("ses_e1f711944ffejMhAAX4BSrFxaa"),
        last_word: Some("All done. TASK_COMPLETE"),
        usage: used(590, 1510, 27),
        micro_dollars: Some(644),
        context: Some((2000, None)),
        tool_calls: 1,
        ..SILENT
    },
    Row {
        name: "opencode-unreachable",
        session: Some("ses_e1f73764cffeM0aIpBHgt158dB"),
        error: Some((
            ErrorKind::Network,
            "Cannot connect to API: Unable to connect. Is the computer able to access the url?",
        )),
        ..SILENT
    },
];
