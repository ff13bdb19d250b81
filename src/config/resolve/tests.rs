use std::path::Path;

use super::super::files::{FileText, Sources};
use super::super::layers::Mode;
use super::super::target::ToolMode;
use super::*;
use secrecy::ExposeSecret;

/// A configuration made by hand: flags, environment, own file, legacy file.
fn load(
    flags: &[(&str, &str)],
    env: &[(&str, &str)],
    own: &str,
    legacy: &str,
) -> Result<Config, ConfigError> {
    let file = |path: &str, text: &str| {
        (!text.is_empty()).then(|| FileText {
            path: path.into(),
            text: text.to_owned(),
        })
    };
    Config::load(Sources {
        flags: flags
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into(), "--set".into()))
            .collect(),
        env: env
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect(),
        own: file("/h/.config/delegate/config.toml", own),
        legacy: Ok(file("/h/.deepseek-mcp/config.json", legacy)),
        home: "/h".into(),
    })
}

fn agent(config: &Config) -> Target {
    endpoint_for_agent(config, &AgentAsk::default()).expect("agents target")
}

fn key(target: &Target) -> Option<String> {
    target
        .endpoint
        .key
        .as_ref()
        .map(|key| key.expose_secret().to_owned())
}

#[test]
fn the_first_layer_that_speaks_wins() {
    let own = "max_turns = 4\nretry_base_ms = 5\nidle_timeout_ms = 6\n";
    let env = [("DELEGATE_MAX_TURNS", "3"), ("DELEGATE_RETRY_BASE_MS", "7")];
    let config = load(&[("max_turns", "2")], &env, own, "").expect("valid");
    let settings = agent(&config).settings;
    assert_eq!(settings.max_turns, 2);
    assert_eq!(settings.retry_base, Duration::from_millis(7));
    assert_eq!(settings.idle_timeout, Duration::from_millis(6));
    assert_eq!(
        settings.connect_timeout,
        RunSettings::default().connect_timeout
    );
    assert_eq!(
        config.agents("retry_base_ms").map(|given| given.origin),
        Some(Origin::Env("DELEGATE_RETRY_BASE_MS".into()))
    );
    assert_eq!(
        config
            .agents("idle_timeout_ms")
            .map(|given| given.origin.to_string()),
        Some("/h/.config/delegate/config.toml".into())
    );
}

#[test]
fn nothing_configured_gives_the_documented_defaults() {
    let target = agent(&load(&[], &[], "", "").expect("valid"));
    assert_eq!(
        target.endpoint.base_url.as_str(),
        "http://localhost:4000/v1"
    );
    assert_eq!(target.endpoint.wire, Wire::Anthropic);
    assert_eq!(target.endpoint.model, "local-qwen-3-6-35b");
    assert_eq!(target.url_origin, Origin::Default);
    assert!(target.local && target.endpoint.key.is_none());
    assert_eq!(target.settings.max_turns, 25);
    assert_eq!(target.settings.bash_timeout, Duration::from_secs(120));
}

#[test]
fn the_run_command_of_the_replay_corpus_is_what_it_says() {
    let flags = [
        ("base_url", "http://127.0.0.1:4711/v1"),
        ("wire", "openai"),
        ("model", "replay-model"),
        ("key_env", "REPLAY_KEY"),
        ("max_turns", "12"),
        ("max_output_tokens", "4096"),
        ("tool_mode", "native"),
    ];
    let config = load(&flags, &[("REPLAY_KEY", " sk-1 ")], "", "").expect("valid");
    let target = agent(&config);
    assert_eq!(
        target.endpoint.base_url.as_str(),
        "http://127.0.0.1:4711/v1"
    );
    assert_eq!(target.endpoint.wire, Wire::Openai);
    assert_eq!(key(&target).as_deref(), Some("sk-1"));
    assert_eq!(target.settings.max_turns, 12);
    assert_eq!(target.settings.max_output_tokens, 4096);
    assert_eq!(target.settings.tool_mode, ToolMode::Native);
    assert_eq!(target.notes, Vec::<String>::new());
}

#[test]
fn a_variable_for_the_key_that_is_not_set_is_an_error_that_names_it() {
    let config = load(&[("key_env", "NOPE")], &[], "", "").expect("valid");
    let error = endpoint_for_agent(&config, &AgentAsk::default()).expect_err("no key");
    assert_eq!(error.code(), "config_key_missing");
    assert!(error.to_string().contains("NOPE"), "{error}");
}

#[test]
fn the_local_key_goes_to_the_configured_origin_and_nowhere_else() {
    let env = [
        ("DELEGATE_LOCAL_URL", "https://proxy.example/v1/messages"),
        ("DELEGATE_LOCAL_KEY", "k"),
    ];
    let config = load(&[], &env, "", "").expect("valid");
    assert_eq!(key(&agent(&config)).as_deref(), Some("k"));
    let same = load(&[("base_url", "https://proxy.example/v1")], &env, "", "").expect("valid");
    assert_eq!(key(&agent(&same)).as_deref(), Some("k"));
    let other = load(&[("base_url", "https://evil.example/v1")], &env, "", "").expect("valid");
    assert_eq!(key(&agent(&other)), None);
    let ask = AgentAsk {
        base_url: Some("https://proxy.example/v1"),
        ..AgentAsk::default()
    };
    let target = endpoint_for_agent(&config, &ask).expect("target");
    assert_eq!(
        key(&target),
        None,
        "a call with its own URL brings its own key"
    );
    let ask = AgentAsk {
        key: Some(SecretString::from("own".to_owned())),
        ..ask
    };
    let target = endpoint_for_agent(&config, &ask).expect("target");
    assert_eq!(key(&target).as_deref(), Some("own"));
}

#[test]
fn the_wire_comes_from_flag_table_and_url_in_this_order() {
    let wire = |flags: &[(&str, &str)], env: &[(&str, &str)]| {
        agent(&load(flags, env, "", "").expect("valid"))
            .endpoint
            .wire
    };
    let local = ("DELEGATE_LOCAL_URL", "http://h/v1/messages");
    assert_eq!(wire(&[("model", "deepseek-x")], &[local]), Wire::Openai);
    assert_eq!(
        wire(&[("model", "deepseek-x"), ("wire", "anthropic")], &[local]),
        Wire::Anthropic
    );
    assert_eq!(wire(&[("model", "mystery")], &[local]), Wire::Anthropic);
    assert_eq!(
        wire(
            &[("model", "mystery"), ("base_url", "http://127.0.0.1:8080")],
            &[]
        ),
        Wire::Openai
    );
    assert_eq!(
        wire(
            &[("model", "m"), ("base_url", "https://h/api/anthropic")],
            &[]
        ),
        Wire::Anthropic
    );
    let config = load(&[("model", "deepseek-x")], &[local], "", "").expect("valid");
    assert_eq!(agent(&config).endpoint.base_url.as_str(), "http://h/v1");
}

#[test]
fn turns_follow_where_the_model_runs_and_never_pass_the_cap() {
    let turns = |env: &[(&str, &str)], model: &str, asked: Option<i64>| {
        let config = load(&[], env, "", "").expect("valid");
        let ask = AgentAsk {
            model: Some(model),
            max_turns: asked,
            ..AgentAsk::default()
        };
        endpoint_for_agent(&config, &ask)
            .expect("target")
            .settings
            .max_turns
    };
    let cloud = ("DELEGATE_LOCAL_URL", "https://proxy.example/v1/messages");
    assert_eq!(turns(&[cloud], "local-x", None), 25);
    assert_eq!(turns(&[cloud], "ornith", Some(0)), 25);
    assert_eq!(turns(&[cloud], "glm-coding-plan", Some(-3)), 60);
    assert_eq!(turns(&[], "unlisted", None), 25, "loopback counts as local");
    assert_eq!(turns(&[cloud], "unlisted", None), 60);
    assert_eq!(turns(&[cloud], "unlisted", Some(1000)), 150);
    assert_eq!(
        turns(&[cloud, ("DELEGATE_HARD_MAX_TURNS", "40")], "x", None),
        40
    );
    assert_eq!(
        turns(&[cloud, ("DELEGATE_COMPAT", "readme")], "x", Some(99)),
        40
    );
    assert!(load(&[], &[("DELEGATE_HARD_MAX_TURNS", "x")], "", "").is_err());
}

#[test]
fn output_bounds_are_asked_for_by_table_and_capped_by_provider() {
    let bound = |model: &str, asked: Option<i64>| {
        let config = load(&[], &[], "", "").expect("valid");
        let ask = AgentAsk {
            model: Some(model),
            max_tokens: asked,
            ..AgentAsk::default()
        };
        endpoint_for_agent(&config, &ask)
            .expect("target")
            .settings
            .max_output_tokens
    };
    assert_eq!(bound("glm-coding-plan", Some(999_999)), 131_072);
    assert_eq!(bound("glm-coding-plan", Some(-5)), 65_536);
    assert_eq!(bound("glm-coding-plan", Some(0)), 65_536);
    assert_eq!(bound("deepseek-v4-flash", None), 150_000);
    assert_eq!(bound("deepseek-v4-flash", Some(8000)), 8000);
    assert_eq!(bound("foo-max", None), 150_000);
    assert_eq!(bound("unknown", None), 65_536);
}

#[test]
fn coding_agents_are_re_routed_only_from_the_default_model() {
    let env = [("DELEGATE_LOCAL_CODING_MODEL", "qwen-3-8-max")];
    let config = load(&[], &env, "", "").expect("valid");
    let model = |agent: Option<&str>, model: Option<&str>| {
        let ask = AgentAsk {
            agent,
            model,
            ..AgentAsk::default()
        };
        endpoint_for_agent(&config, &ask)
            .expect("target")
            .endpoint
            .model
    };
    assert_eq!(model(Some("Coder"), None), "qwen-3-8-max");
    assert_eq!(
        model(Some("coder"), Some("local-qwen-3-6-35b")),
        "qwen-3-8-max"
    );
    assert_eq!(model(Some("coder"), Some("glm-x")), "glm-x");
    assert_eq!(model(Some("reviewer"), None), "local-qwen-3-6-35b");
    assert_eq!(model(None, None), "local-qwen-3-6-35b");
}

#[test]
fn the_gateway_switch_routes_by_lane() {
    let env = [
        ("DELEGATE_GATEWAY", "bifrost"),
        ("DELEGATE_BIFROST_URL", "https://gw.example"),
        ("DELEGATE_BIFROST_VK_LOCAL", "l"),
        ("DELEGATE_BIFROST_VK_CODE", "c"),
    ];
    let config = load(&[], &env, "", "").expect("valid");
    let ask = |model| AgentAsk {
        model: Some(model),
        ..AgentAsk::default()
    };
    let local = endpoint_for_agent(&config, &ask("local-x")).expect("target");
    assert_eq!(
        local.endpoint.base_url.as_str(),
        "https://gw.example/litellm/v1"
    );
    assert_eq!(key(&local).as_deref(), Some("l"));
    let code = endpoint_for_agent(&config, &ask("deepseek-x")).expect("target");
    assert_eq!(code.endpoint.wire, Wire::Openai);
    assert_eq!(key(&code).as_deref(), Some("c"));
}

#[test]
fn the_deepseek_tools_read_the_legacy_file_under_our_own() {
    let legacy = r#"{"flash":"A","pro":"B","max_turns":7,"max_run_seconds":9,
        "api_key":"k","pro_reasoning_effort":"high"}"#;
    let config = load(&[], &[], "max_run_seconds = 8\n", legacy).expect("valid");
    let flash = endpoint_for_deepseek(&config, Profile::Flash).expect("flash");
    assert_eq!(flash.endpoint.model, "A");
    assert_eq!(
        flash.endpoint.base_url.as_str(),
        "https://api.deepseek.com/"
    );
    assert_eq!(flash.settings.max_turns, 7);
    assert_eq!(flash.settings.max_run, Duration::from_secs(8));
    assert_eq!(flash.settings.max_attempts, 3);
    assert!(flash.endpoint.extra_body.is_empty());
    assert_eq!(key(&flash).as_deref(), Some("k"));
    let pro = endpoint_for_deepseek(&config, Profile::Pro).expect("pro");
    assert_eq!(pro.endpoint.model, "B");
    assert!(pro.endpoint.extra_body.contains_key("thinking"));
    // The settings of the agents tools know nothing of the legacy file.
    assert_eq!(agent(&config).settings.max_turns, 25);
    let ours = load(&[], &[], "[deepseek]\nflash = \"C\"\n", legacy).expect("valid");
    let flash = endpoint_for_deepseek(&ours, Profile::Flash).expect("flash");
    assert_eq!(flash.endpoint.model, "C");
}

#[test]
fn flags_of_a_server_hold_for_the_deepseek_tools_too() {
    let legacy = r#"{"flash": "A", "pro": "B", "base_url": "https://h/v1", "api_key": "k"}"#;
    let flags = [
        ("base_url", "http://127.0.0.1:9/v1"),
        ("model", "M"),
        ("key_env", "MY_KEY"),
        ("wire", "anthropic"),
    ];
    let config = load(&flags, &[("MY_KEY", "mine")], "", legacy).expect("valid");
    for profile in [Profile::Flash, Profile::Pro] {
        let target = endpoint_for_deepseek(&config, profile).expect("target");
        assert_eq!(target.endpoint.base_url.host_str(), Some("127.0.0.1"));
        assert_eq!(target.endpoint.model, "M");
        assert_eq!(target.endpoint.wire, Wire::Anthropic);
        assert_eq!(key(&target).as_deref(), Some("mine"));
    }
    // The key of the file is not for a URL that a flag names.
    let config = load(&flags[..1], &[], "", legacy).expect("valid");
    let target = endpoint_for_deepseek(&config, Profile::Flash).expect("target");
    assert_ne!(key(&target).as_deref(), Some("k"));
    let elsewhere = [("base_url", "https://elsewhere.example/v1")];
    let config_ = load(&elsewhere, &[], "", legacy).expect("valid");
    let error = endpoint_for_deepseek(&config_, Profile::Flash).expect_err("no key for it");
    assert_eq!(error.code(), "config_key_missing");
    assert_eq!(target.endpoint.model, "A");
    let config = load(&flags[2..3], &[], "", legacy).expect("valid");
    assert!(endpoint_for_deepseek(&config, Profile::Flash).is_err());
}

#[test]
fn a_broken_legacy_file_stops_the_deepseek_tools_and_nothing_else() {
    let config = load(&[], &[], "", r#"{"max_turn":7}"#).expect("loads");
    agent(&config);
    let error = endpoint_for_deepseek(&config, Profile::Flash).expect_err("broken");
    assert_eq!(error.code(), "config_unknown_key");
    assert!(config.deepseek_workspace(Path::new("/w")).is_err());
}

#[test]
fn the_mode_is_exact_and_the_workspace_expands() {
    let mode = |value| {
        load(&[], &[("DEEPSEEK_MODE", value)], "", "")
            .expect("loads")
            .deepseek_mode()
    };
    assert_eq!(mode("auto"), Ok(Mode::Auto));
    assert_eq!(mode("off"), Ok(Mode::Off));
    for bad in ["OFF", "", "on"] {
        assert!(mode(bad).is_err(), "{bad}");
    }
    let root = |env: &[(&str, &str)], legacy: &str| {
        let config = load(&[], env, "", legacy).expect("loads");
        config
            .deepseek_workspace(Path::new("/w"))
            .map(|root| root.value)
    };
    assert_eq!(root(&[], ""), Ok("/w".into()));
    assert_eq!(root(&[], r#"{"workspace":"~/p"}"#), Ok("/h/p".into()));
    assert_eq!(
        root(&[("DEEPSEEK_WORKSPACE", "/x")], r#"{"workspace":"~/p"}"#),
        Ok("/x".into())
    );
    assert!(root(&[("DEEPSEEK_WORKSPACE", " ")], "").is_err());
}

#[test]
fn what_is_shown_names_origins_and_holds_no_secret() {
    let env = [
        ("DELEGATE_LOCAL_KEY", "5ECRET-1"),
        ("DEEPSEEK_API_KEY", "5ECRET-2"),
    ];
    let config = load(&[("max_turns", "3")], &env, "", r#"{"api_key":"5ECRET-3"}"#).expect("valid");
    let lines = config.show();
    let turns = lines
        .iter()
        .find(|line| line.group == "agents" && line.name == "max_turns")
        .expect("shown");
    assert_eq!(
        (turns.value.as_str(), turns.origin.as_str()),
        ("3", "--set")
    );
    let all = format!("{lines:?} {config:?}");
    assert!(!all.contains("5ECRET"), "{all}");
    assert!(all.contains("(set, not shown)"));
}

#[test]
fn a_bad_url_is_named_with_its_layer_and_without_its_text() {
    let error =
        load(&[], &[("DELEGATE_LOCAL_URL", "http://u:5ECRET@h/")], "", "").expect_err("bad");
    assert_eq!(error.code(), "config_bad_url");
    assert!(error.to_string().contains("$DELEGATE_LOCAL_URL"), "{error}");
    assert!(!error.to_string().contains("5ECRET"));
}
