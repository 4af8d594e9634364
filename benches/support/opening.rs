//! What one opening writes into Redis: read from a real one, so that the no-op can write the same.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncCommands, IntoConnectionInfo, Script};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use assent::pb;

/// The record's fields. The bench stops when an opening writes others, as `BARE` has to follow then.
const FIELDS: [&str; 13] = [
    "body",
    "created",
    "deadline",
    "format",
    "indexes",
    "key",
    "on_expiry",
    "open",
    "operation",
    "run",
    "state",
    "then",
    "version",
];
/// The types of the other keys of an opening, by the first letters of their names: the same holds for these.
const KEYS: [(&str, &str); 6] = [
    ("due", "zset"),
    ("k:", "string"),
    ("o:", "zset"),
    ("o:", "zset"),
    ("o:", "zset"),
    ("r:", "hash"),
];

/// The same writes, and nothing else.
///
/// KEYS  1 record   2 call key   3..6 `due` and the open indexes
/// ARGV  1 id   2 deadline   3 body   4 state   5 names of its indexes   6 name of its call key   7 name of
///       its run   8 ms until the keys go
const BARE: &str = "
redis.call('HSET', KEYS[1], 'format', 1, 'body', ARGV[3], 'state', ARGV[4], 'version', 1,
  'created', ARGV[2], 'deadline', ARGV[2], 'operation', '', 'open', 1, 'then', 'settle',
  'indexes', ARGV[5], 'key', ARGV[6], 'run', ARGV[7], 'on_expiry', 'abandon')
redis.call('PEXPIRE', KEYS[1], ARGV[8])
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[8])
for index = 3, 6 do
  redis.call('ZADD', KEYS[index], ARGV[2], ARGV[1])
end
";

/// What one opening wrote.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Opening {
    url: String,
    body: String,
    state: String,
    indexes: String,
    key: String,
    run: String,
    expires_millis: i64,
    meta: (String, HashMap<String, String>),
}

impl Opening {
    /// Reads the one opening that a Redis holds.
    ///
    /// # Panics
    /// When it holds other keys than `BARE` writes.
    pub(crate) async fn read(url: &str) -> Self {
        let mut redis = connect(url).await;
        let names: Vec<String> = redis.keys("*").await.expect("redis answers");
        let mut keys = Vec::new();
        let (mut record, mut meta) = (String::new(), String::new());
        for name in &names {
            let Some((_, what)) = name.split_once("}:") else {
                meta.clone_from(name);
                continue;
            };
            let of_type: String = redis::cmd("TYPE")
                .arg(name)
                .query_async(&mut redis)
                .await
                .expect("redis answers");
            let what = what.find(':').map_or(what, |colon| &what[..=colon]);
            if what == "r:" {
                record.clone_from(name);
            }
            keys.push((what, of_type));
        }
        keys.sort_unstable();
        let keys: Vec<(&str, &str)> = keys
            .iter()
            .map(|(what, of_type)| (*what, of_type.as_str()))
            .collect();
        assert_eq!(keys, KEYS, "an opening writes other keys: change `BARE`");
        let mut fields: HashMap<String, String> =
            redis.hgetall(&record).await.expect("redis answers");
        let mut written: Vec<&str> = fields.keys().map(String::as_str).collect();
        written.sort_unstable();
        assert_eq!(
            written, FIELDS,
            "an opening writes other fields: change `BARE`"
        );
        let mut take = |field: &str| fields.remove(field).expect("the fields were compared");
        Self {
            url: url.to_owned(),
            body: take("body"),
            state: take("state"),
            indexes: take("indexes"),
            key: take("key"),
            run: take("run"),
            expires_millis: redis.pttl(&record).await.expect("redis answers"),
            meta: (
                meta.clone(),
                redis.hgetall(&meta).await.expect("redis answers"),
            ),
        }
    }

    /// Empties Redis but for how the keys are laid out, so that all rounds start alike.
    pub(crate) async fn clear(&self) {
        let mut redis = connect(&self.url).await;
        let (name, layout) = &self.meta;
        let layout: Vec<(&String, &String)> = layout.iter().collect();
        let () = redis::pipe()
            .atomic()
            .cmd("FLUSHDB")
            .hset_multiple(name, &layout)
            .query_async(&mut redis)
            .await
            .expect("redis answers");
    }
}

/// Where the no-op writes.
pub(crate) struct BareStore {
    opening: Opening,
    script: Script,
    redis: MultiplexedConnection,
}

impl BareStore {
    pub(crate) async fn connect(opening: Opening) -> Self {
        Self {
            redis: connect(&opening.url).await,
            script: Script::new(BARE),
            opening,
        }
    }

    /// Writes what an opening for this request would write, under names that only look like its own.
    pub(crate) async fn write(&self, request: &pb::DecideRequest) -> Result<(), redis::RedisError> {
        let scope = request.scope.as_ref();
        let session = scope.map_or("", |scope| scope.session_id.as_str());
        let partition = hash_of(session) % 64;
        let key = |what: &str, name: &str| format!("no-op:{{{partition}-000000}}:{what}{name}");
        let hashed = |what: &str, name: &str| {
            let hash = hash_of(name);
            key(what, &format!("{hash:032x}"))
        };
        let call = match &request.action {
            Some(pb::decide_request::Action::Call(call)) => call.call_id.as_str(),
            Some(pb::decide_request::Action::Run(_)) | None => "",
        };
        let id = Uuid::new_v4().to_string();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let mut redis = self.redis.clone();
        self.script
            .key(key("r:", &id))
            .key(hashed("k:", call))
            .key(key("due", ""))
            .key(hashed("o:", "tenant"))
            .key(hashed("o:", session))
            .key(hashed(
                "o:",
                scope.map_or("", |scope| scope.run_id.as_str()),
            ))
            .arg(&id)
            .arg(now.as_millis().to_string())
            .arg(&self.opening.body)
            .arg(&self.opening.state)
            .arg(&self.opening.indexes)
            .arg(&self.opening.key)
            .arg(&self.opening.run)
            .arg(self.opening.expires_millis)
            .invoke_async(&mut redis)
            .await
    }
}

/// As Assent connects: small writes are not held back, which would cost the no-op 40 ms for some.
async fn connect(url: &str) -> MultiplexedConnection {
    let info = url.into_connection_info().expect("the url is well-formed");
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    redis::Client::open(info)
        .expect("the url is well-formed")
        .get_multiplexed_async_connection()
        .await
        .expect("redis listens")
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
