//! The switches of the domains. All are on unless the configuration turns them off.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use serde::de::{Error, MapAccess, Visitor};
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

    /// Whether no domain is enabled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
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
        struct Switches;

        impl<'de> Visitor<'de> for Switches {
            type Value = Domains;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a table of domains and whether they are on")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut switches: A) -> Result<Domains, A::Error> {
                let mut domains = Domains::default();
                while let Some((Name(name), is_on)) = switches.next_entry::<Name, bool>()? {
                    if !is_on {
                        domains.off.insert(name);
                    }
                }
                Ok(domains)
            }
        }

        deserializer.deserialize_map(Switches)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Known;

        impl Visitor<'_> for Known {
            type Value = Name;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the name of a domain")
            }

            fn visit_str<E: Error>(self, key: &str) -> Result<Name, E> {
                let known = Domains::names().iter().copied().find(|name| *name == key);
                known.map(Name).ok_or_else(|| E::unknown_field(key, Domains::names()))
            }
        }

        deserializer.deserialize_identifier(Known)
    }
}
