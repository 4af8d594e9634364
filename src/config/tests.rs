use clap::Parser as _;

use super::*;

fn flags(arguments: &[&str]) -> ServeFlags {
    let all = std::iter::once("assent").chain(arguments.iter().copied());
    Cli::try_parse_from(all).unwrap().serve
}

fn settings(arguments: &[&str]) -> Result<Settings, String> {
    settings_in(arguments, &[("HOME", "/home/ada")])
}

fn settings_in(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Settings, String> {
    let read = |name: &str| {
        let found = variables.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let names = variables.iter().map(|(name, _)| OsString::from(name));
    Settings::new(flags(arguments), &read, names).map_err(|error| error.to_string())
}

#[test]
fn with_no_flag_at_all_it_is_loopback_and_a_file_of_the_user() {
    let settings = settings(&[]).unwrap();
    assert_eq!(
        settings.listen,
        Address::Tcp("127.0.0.1:50051".parse().unwrap())
    );
    assert_eq!(settings.policy, None);
    let file = "/home/ada/.local/share/assent/assent.db";
    assert_eq!(settings.store, StoreSettings::Sqlite(file.into()));
    assert_eq!(settings.log_filter, "info");
    assert_eq!(settings.warnings, Vec::<String>::new());
}

#[test]
fn the_data_directory_is_the_one_of_the_xdg_specification() {
    let store =
        |variables: &[(&str, &str)]| settings_in(&[], variables).map(|settings| settings.store);
    let at = |path: &str| Ok(StoreSettings::Sqlite(path.into()));
    assert_eq!(
        store(&[("HOME", "/h"), ("XDG_DATA_HOME", "/x")]),
        at("/x/assent/assent.db")
    );
    let relative = [("HOME", "/h"), ("XDG_DATA_HOME", "x")];
    assert_eq!(store(&relative), at("/h/.local/share/assent/assent.db"));
    assert_eq!(store(&[]).unwrap_err(), ConfigError::NoHome.to_string());
    assert_eq!(
        store(&[("HOME", "")]).unwrap_err(),
        ConfigError::NoHome.to_string()
    );
}

#[test]
fn a_plain_listener_beyond_loopback_must_be_allowed() {
    for listen in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:127.0.0.1]:1"] {
        let refused = settings(&["--listen", listen]).unwrap_err();
        assert!(
            refused.contains("not authenticated") && refused.contains("--allow-remote"),
            "{refused}"
        );
        settings(&["--listen", listen, "--allow-remote"]).unwrap();
    }
    for listen in [
        "127.0.0.1:0",
        "127.9.9.9:1",
        "[::1]:1",
        "localhost:1",
        "unix:/run/a.sock",
    ] {
        settings(&["--listen", listen]).unwrap();
    }
}

#[test]
fn what_is_no_address_is_refused() {
    for listen in [
        "",
        "50051",
        ":50051",
        "example.com:1",
        "127.0.0.1",
        "unix:",
        "localhost:x",
        "http://127.0.0.1:1",
    ] {
        let refused = settings(&["--listen", listen]).unwrap_err();
        assert!(
            refused.contains(&format!("cannot listen on `{listen}`")),
            "{refused}"
        );
    }
}

#[test]
fn stores_are_told_apart() {
    let store = |text: &str| settings(&["--store", text]).map(|settings| settings.store);
    assert_eq!(
        store("sqlite:/a/b.db"),
        Ok(StoreSettings::Sqlite("/a/b.db".into()))
    );
    assert_eq!(
        store("sqlite:///a/b.db"),
        Ok(StoreSettings::Sqlite("/a/b.db".into()))
    );
    assert!(matches!(store("sqlite:b.db"), Ok(StoreSettings::Sqlite(path)) if path.is_absolute()));
    assert_eq!(
        store("sqlite:").unwrap_err(),
        ConfigError::NoFile.to_string()
    );
    assert_eq!(
        store("sqlite::memory:").unwrap_err(),
        ConfigError::NoFile.to_string()
    );
    assert_eq!(
        store("sqlite://b.db").unwrap_err(),
        ConfigError::SqliteUrl.to_string()
    );
    assert!(matches!(
        store("redis://h:1/2"),
        Ok(StoreSettings::Redis { .. })
    ));
    for planned in [
        "rediss",
        "redis+sentinel",
        "rediss+sentinel",
        "redis+cluster",
        "rediss+cluster",
    ] {
        let refused = store(&format!("{planned}://me:hunter2@h:1")).unwrap_err();
        assert!(
            refused.contains(&format!("does not support `{planned}` stores yet")),
            "{refused}"
        );
        assert!(!refused.contains("hunter2"), "{refused}");
    }
    for unknown in [
        "",
        "redis:",
        "redis://",
        "postgres://me:hunter2@h",
        "hunter2",
        "a.db",
    ] {
        assert_eq!(store(unknown).unwrap_err(), ConfigError::Store.to_string());
    }
}

#[test]
fn no_secret_is_shown() {
    let settings = settings(&["--store", "redis://me:hunter2@h:1/2"]).unwrap();
    assert!(!format!("{settings:?} {}", settings.store).contains("hunter2"));
    assert_eq!(settings.store.to_string(), "redis://***@h:1/2");
}

#[test]
fn durations_are_written_as_in_a_policy() {
    let timeout = |text| settings(&["--drain-timeout", text]).map(|read| read.drain_timeout);
    assert_eq!(timeout("500ms").unwrap(), Duration::from_millis(500));
    for wrong in ["soon", "0s", "99999999999999999d"] {
        let refused = timeout(wrong).unwrap_err();
        let named = format!("`--drain-timeout` is `{wrong}`: write an integer above zero");
        assert!(refused.contains(&named), "{refused}");
    }
}

#[test]
fn the_log_filter_is_the_flag_then_rust_log() {
    let filter = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut variables = variables.to_vec();
        variables.push(("HOME", "/h"));
        settings_in(arguments, &variables).unwrap().log_filter
    };
    assert_eq!(
        filter(&["--log-level", "debug"], &[("RUST_LOG", "warn")]),
        "debug"
    );
    assert_eq!(filter(&[], &[("RUST_LOG", "warn")]), "warn");
    assert_eq!(filter(&[], &[("RUST_LOG", "")]), "info");
}

#[test]
fn a_misspelt_variable_is_named() {
    let variables = [
        ("HOME", "/h"),
        ("ASSENT_POLCY", "p.yaml"),
        ("ASSENT_SERVER", "a:1"),
        ("ASSENT_LISTEN", "127.0.0.1:1"),
        ("ASSENT_SERVICE_HOST", "10.0.0.1"),
        ("ASSENT_PORT_50051_TCP", "tcp://10.0.0.1:50051"),
    ];
    let named = ["the environment variable ASSENT_POLCY is no setting and has no effect"];
    assert_eq!(settings_in(&[], &variables).unwrap().warnings, named);
}
