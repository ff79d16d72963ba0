//! Where loads run: in their own cgroup and network namespace, and how they wait for one another. They run in
//! a fork of the test, so they can report a failure only by ending.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::cgroup::Cgroup;
use super::network::Namespace;
use super::process::{Load, cpus};
use super::{SharedNumbers, shared, until};

/// A flag that forked children share.
#[derive(Debug)]
pub(crate) struct Flag(AtomicU32);

// SAFETY: an atomic number, for which zero is a value.
unsafe impl SharedNumbers for Flag {}

impl Flag {
    pub(crate) fn new() -> &'static Self {
        shared()
    }

    pub(crate) fn set(&self) {
        self.0.store(1, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    pub(crate) fn wait(&self) {
        until("the other side is ready", || self.is_set().then_some(()));
    }
}

/// The cgroup and the network namespace of a load.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) cgroup: &'a Cgroup,
    pub(crate) namespace: &'a Namespace,
}

impl Place<'_> {
    pub(crate) fn run(&self, body: impl FnOnce()) -> Load {
        Load::running(self.cgroup, &cpus(), || {
            self.namespace.enter();
            body();
        })
    }
}

/// Sleeps until the process is killed.
pub(crate) fn sleep_forever() {
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}
