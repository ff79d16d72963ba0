//! The switches of the domains. All are on unless the configuration turns them off.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::probe::PROBES;

/// The domains that read files of cgroups. All others have programs.
pub const FILE_DOMAINS: [&str; 3] = ["cpu", "memory", "pressure"];

/// Which domains are enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains {
    off: BTreeSet<&'static str>,
}

/// The key of a switch.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name(&'static str);

static NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| Domains::with_programs().chain(FILE_DOMAINS).collect());

impl Domains {
    /// All domains that can be turned off.
    #[must_use]
    pub fn names() -> &'static [&'static str] {
        &NAMES
    }

    /// Those with programs; `cgroup`, which the others need, cannot be turned off.
    pub fn with_programs() -> impl Iterator<Item = &'static str> {
        PROBES.iter().map(|probe| probe.domain).filter(|name| *name != "cgroup")
    }

    /// All domains but these.
    #[cfg(test)]
    pub(crate) fn without(names: &[&'static str]) -> Self {
        Self { off: names.iter().copied().collect() }
    }

    /// Whether this domain is enabled.
    #[must_use]
    pub fn wants(&self, domain: &str) -> bool {
        !self.off.contains(domain)
    }

    /// Whether any enabled domain has programs.
    #[must_use]
    pub fn has_programs(&self) -> bool {
        Self::with_programs().any(|name| self.wants(name))
    }

    #[must_use]
    pub fn are_all_off(&self) -> bool {
        Self::names().iter().all(|name| !self.wants(name))
    }
}

impl Serialize for Domains {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Self::names().iter().map(|name| (name, self.wants(name))))
    }
}

impl<'de> Deserialize<'de> for Domains {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let switches = BTreeMap::<Name, bool>::deserialize(deserializer)?;
        let off = switches.into_iter().filter(|(_, is_on)| !is_on).map(|(Name(name), _)| name);
        Ok(Self { off: off.collect() })
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = String::deserialize(deserializer)?;
        let known = Domains::names().iter().copied().find(|name| *name == key);
        known.map(Self).ok_or_else(|| D::Error::unknown_field(&key, Domains::names()))
    }
}
