//! Where something may happen to the policy's files, and hearing of it.
//!
//! Directories are watched and not files, as a file that is replaced by another one is heard of in its directory only.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// The directories that have a part in a policy.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Places(BTreeSet<Place>);

/// One directory. Another one under the same name is another place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Places {
    /// Those of a policy's file or directory: where it is, and where links lead from there, as a ConfigMap has them.
    pub(super) fn of(policy: &Path) -> Self {
        let mut places = Self::default();
        places.add_parent(policy);
        places.add_target(policy);
        if let Ok(entries) = fs::read_dir(policy) {
            places.add(policy);
            for entry in entries.flatten() {
                places.add_target(&entry.path());
            }
        }
        places
    }

    fn add_target(&mut self, path: &Path) {
        if let Ok(target) = path.canonicalize() {
            self.add_parent(&target);
        }
    }

    fn add_parent(&mut self, path: &Path) {
        match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => self.add(Path::new(".")),
            Some(parent) => self.add(parent),
            None => {}
        }
    }

    /// What is not there cannot be watched; that it comes is heard of one above, or seen when nothing is heard.
    fn add(&mut self, directory: &Path) {
        if let Ok(metadata) = fs::metadata(directory) {
            self.0.insert(Place {
                path: directory.to_owned(),
                device: metadata.dev(),
                inode: metadata.ino(),
            });
        }
    }
}

/// Hears what happens in some places.
#[derive(Default)]
pub(super) struct Watch {
    places: Places,
    watcher: Option<RecommendedWatcher>,
    heard: Arc<Notify>,
    is_deaf: bool,
}

impl Watch {
    /// Watches these places from now on. Gives whether it did not before.
    pub(super) fn moves_to(&mut self, places: Places) -> bool {
        if places == self.places {
            return false;
        }
        let heard = Arc::clone(&self.heard);
        let begun = notify::recommended_watcher(move |event| {
            if concerns(&event) {
                heard.notify_one();
            }
        });
        // The old one ends here: it may watch directories that have gone.
        self.watcher = match begun {
            Ok(mut watcher) => {
                for place in &places.0 {
                    if let Err(error) = watcher.watch(&place.path, RecursiveMode::NonRecursive) {
                        self.complain(&error);
                    }
                }
                Some(watcher)
            }
            Err(error) => {
                self.complain(&error);
                None
            }
        };
        self.places = places;
        true
    }

    /// Ready when something was heard since it last was.
    pub(super) async fn heard(&self) {
        self.heard.notified().await;
    }

    /// Says once that changes are seen late.
    fn complain(&mut self, error: &notify::Error) {
        if !self.is_deaf {
            tracing::warn!(
                %error,
                "the policy's directories cannot be watched: it is reloaded a few seconds late"
            );
        }
        self.is_deaf = true;
    }
}

/// Reading changes nothing, and is what is done here.
fn concerns(event: &notify::Result<Event>) -> bool {
    match event {
        Ok(event) => match event.kind {
            EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
            EventKind::Any
            | EventKind::Create(_)
            | EventKind::Modify(_)
            | EventKind::Remove(_)
            | EventKind::Other => true,
        },
        // Events may have been lost.
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// Watches the policy, and tells whether `change` is heard of.
    async fn is_heard(policy: &Path, change: impl FnOnce()) -> bool {
        let mut watch = Watch::default();
        assert!(watch.moves_to(Places::of(policy)));
        assert!(!watch.moves_to(Places::of(policy)));
        change();
        timeout(SOON, watch.heard()).await.is_ok()
    }

    #[tokio::test]
    async fn each_way_of_replacing_is_heard_of() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("policies");
        fs::create_dir(&directory).unwrap();
        let file = directory.join("policy.yaml");
        fs::write(&file, "a").unwrap();
        for policy in [&file, &directory] {
            assert!(is_heard(policy, || fs::write(&file, "b").unwrap()).await);
            let new = folder.path().join("new.yaml");
            fs::write(&new, "c").unwrap();
            assert!(is_heard(policy, || fs::rename(&new, &file).unwrap()).await);
            assert!(is_heard(policy, || fs::remove_file(&file).unwrap()).await);
            assert!(is_heard(policy, || fs::write(&file, "d").unwrap()).await);
            let away = folder.path().join("away");
            assert!(is_heard(policy, || fs::rename(&directory, &away).unwrap()).await);
            fs::rename(&away, &directory).unwrap();
        }
    }

    #[tokio::test]
    async fn the_swap_of_a_link_and_a_write_behind_it_are_heard_of() {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path();
        let data = |name: &str| mount.join(name).join("policy.yaml");
        for name in ["..1", "..2"] {
            fs::create_dir(mount.join(name)).unwrap();
            fs::write(data(name), name).unwrap();
        }
        symlink("..1", mount.join("..data")).unwrap();
        symlink("..data/policy.yaml", mount.join("policy.yaml")).unwrap();
        for policy in [mount, &mount.join("policy.yaml")] {
            assert!(is_heard(policy, || fs::write(data("..1"), "new").unwrap()).await);
            symlink("..2", mount.join("..data_tmp")).unwrap();
            let swap = || fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
            assert!(is_heard(policy, swap).await);
            symlink("..1", mount.join("..back")).unwrap();
            fs::rename(mount.join("..back"), mount.join("..data")).unwrap();
        }
    }

    #[test]
    fn reading_is_no_reason_to_look() {
        let event = |kind| Ok(Event::new(kind));
        for kind in [
            AccessKind::Open(AccessMode::Any),
            AccessKind::Read,
            AccessKind::Close(AccessMode::Read),
        ] {
            assert!(!concerns(&event(EventKind::Access(kind))));
        }
        let written = AccessKind::Close(AccessMode::Write);
        assert!(concerns(&event(EventKind::Access(written))));
        assert!(concerns(&Err(notify::Error::generic("lost"))));
    }
}
