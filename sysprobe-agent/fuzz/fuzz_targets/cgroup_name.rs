//! Any path at all has a name: bounded, printable, and no container outside of the outermost one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sysprobe_agent::cgroup::name::{NAME_MAX, name_of};
use sysprobe_agent::snapshot::WorkloadKind;

fuzz_target!(|bytes: &[u8]| {
    let path = String::from_utf8_lossy(bytes);
    let name = name_of(&path);
    assert!(!name.name.is_empty() && name.name.len() <= NAME_MAX);
    assert!(!name.name.chars().any(char::is_control));
    assert!(name.container_id.is_none() || name.kind == WorkloadKind::Container);
    let is_id = |id: &str| id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(name.container_id.as_deref().is_none_or(is_id));
    // What is made inside a container stays its own.
    if name.kind == WorkloadKind::Container {
        let inner = name_of(&format!("{path}/inner"));
        let inner = (inner.name, inner.container_id, inner.pod_uid);
        assert_eq!(inner, (name.name, name.container_id, name.pod_uid));
    }
});
