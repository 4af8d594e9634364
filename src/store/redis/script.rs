//! The scripts, and calls of them.

use std::borrow::Cow;
use std::sync::LazyLock;

use redis::Cmd;

/// A script and the digest that Redis knows it by.
pub(super) struct Script {
    source: &'static str,
    digest: String,
    writes: bool,
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $file:literal, writes: $writes:literal;)*) => {$(
        $(#[$doc])*
        pub(super) static $name: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!($file), $writes));
    )*};
}

scripts! {
    OPEN = "open.lua", writes: true;
    COMMIT = "commit.lua", writes: true;
    READ = "read.lua", writes: false;
    FIND = "find.lua", writes: false;
    MEMBERS_OF = "members.lua", writes: false;
    LIST = "list.lua", writes: false;
    DUE = "due.lua", writes: true;
    TRIM = "trim.lua", writes: true;
    META = "meta.lua", writes: true;
    READ_GRANT = "read_grant.lua", writes: false;
    END_GRANT = "end_grant.lua", writes: true;
    COUNT = "count.lua", writes: true;
}

impl Script {
    fn new(source: &'static str, writes: bool) -> Self {
        let digest = redis::Script::new(source).get_hash().to_owned();
        Self {
            source,
            digest,
            writes,
        }
    }
}

/// One call of a script.
pub(super) struct Call<'a> {
    script: &'static Script,
    keys: Vec<String>,
    args: Vec<Cow<'a, str>>,
}

impl<'a> Call<'a> {
    /// A call with this first key, whose partition is that of all it touches.
    pub(super) fn new(script: &'static Script, key: String) -> Self {
        Self {
            script,
            keys: vec![key],
            args: Vec::new(),
        }
    }

    /// A call with these keys, which lie in one partition.
    pub(super) fn over(script: &'static Script, keys: Vec<String>) -> Self {
        Self {
            script,
            keys,
            args: Vec::new(),
        }
    }

    /// With one key more.
    pub(super) fn key(mut self, key: String) -> Self {
        self.keys.push(key);
        self
    }

    /// With more keys.
    pub(super) fn keys(mut self, keys: impl IntoIterator<Item = String>) -> Self {
        self.keys.extend(keys);
        self
    }

    /// With one argument more.
    pub(super) fn arg(mut self, arg: impl Into<Cow<'a, str>>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// With a number as one argument more.
    pub(super) fn number(self, number: impl ToString) -> Self {
        self.arg(number.to_string())
    }

    /// The key that names the call in an error.
    pub(super) fn first_key(&self) -> &str {
        self.keys.first().map_or("", String::as_str)
    }

    /// The command that hopes Redis knows the script.
    pub(super) fn by_digest(&self) -> Cmd {
        self.command(
            if self.script.writes {
                "EVALSHA"
            } else {
                "EVALSHA_RO"
            },
            &self.script.digest,
        )
    }

    /// The command that brings the script along.
    pub(super) fn by_source(&self) -> Cmd {
        self.command(
            if self.script.writes {
                "EVAL"
            } else {
                "EVAL_RO"
            },
            self.script.source,
        )
    }

    fn command(&self, verb: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(self.keys.len());
        for key in &self.keys {
            command.arg(key);
        }
        for arg in &self.args {
            command.arg(arg.as_bytes());
        }
        command
    }
}
