//! Which kernels there are, and which packages make one. No side effects: package names in, a choice out.
//!
//! Versions change often, so a kernel is named by its series, and the newest package of that series is used.
//! All are the distribution's "cloud" kernels: small, and with everything the tests need.

use anyhow::{Context, Result};

use crate::build::Arch;

/// A kernel series and the suites that have it, in order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) label: &'static str,
    pub(super) suites: &'static [&'static str],
}

/// The series from oldest to newest. 5.10 is the oldest that the agent supports.
pub(super) const SERIES: [Series; 4] = [
    Series { label: "5.10", suites: &["bullseye-security", "bullseye"] },
    Series { label: "6.1", suites: &["bookworm", "bookworm-security"] },
    Series { label: "6.12", suites: &["bookworm-security", "trixie", "trixie-security"] },
    Series { label: "7.3", suites: &["trixie-backports", "forky"] },
];

/// The default choice: the oldest, one in the middle, the newest.
pub(super) const SHORT: [&str; 3] = ["5.10", "6.1", "7.3"];

/// The search pattern for apt-cache.
pub(super) fn pattern(arch: Arch) -> String {
    format!("^linux-(image|binary|modules|base)-.*{}$", suffix(arch))
}

fn suffix(arch: Arch) -> String {
    format!("-cloud-{}", arch.name())
}

/// The requested kernels, in the table's order.
pub(super) fn select(labels: &[String], all: bool) -> Result<Vec<Series>> {
    let known = || SERIES.map(|series| series.label).join(", ");
    for label in labels {
        let found = SERIES.iter().any(|series| series.label == label);
        found
            .then_some(())
            .with_context(|| format!("there is no test kernel `{label}`: choose from {}", known()))?;
    }
    let wanted = |label: &str| match (all, labels) {
        (true, _) => true,
        (false, []) => SHORT.contains(&label),
        (false, labels) => labels.iter().any(|wanted| wanted == label),
    };
    Ok(SERIES.into_iter().filter(|series| wanted(series.label)).collect())
}

/// The packages of the newest kernel of a series, from the names that a suite has.
pub(super) fn newest(arch: Arch, label: &str, names: &[&str]) -> Option<Vec<String>> {
    let suffix = &*suffix(arch);
    let of = |prefix: &'static str| names.iter().filter_map(move |name| version(name, prefix, suffix));
    // From 6.19 on, kernels are split into packages, and `linux-image` only depends on them: the image, the
    // modules, and (not in all versions) lists of built-in modules.
    let split =
        of("linux-modules-").filter(|version| is_of(version, label)).max_by_key(|found| numbers(found));
    if let Some(version) = split {
        let named =
            |prefix: &str| Some(format!("{prefix}{version}{suffix}")).filter(|name| names.contains(&&**name));
        let mut packages = vec![named("linux-binary-").or_else(|| named("linux-binary-unsigned-"))?];
        packages.extend(["linux-modules-", "linux-base-"].into_iter().filter_map(named));
        return Some(packages);
    }
    let whole =
        of("linux-image-").filter(|version| is_of(version, label)).max_by_key(|found| numbers(found))?;
    Some(vec![format!("linux-image-{whole}{suffix}")])
}

/// Extracts `6.12.117+deb12` from `linux-image-6.12.117+deb12-cloud-amd64`.
fn version<'a>(name: &'a str, prefix: &str, suffix: &str) -> Option<&'a str> {
    name.strip_prefix(prefix)?.strip_suffix(suffix)
}

/// Whether a version belongs to the series: 6.12.3 does not belong to 6.1.
fn is_of(version: &str, label: &str) -> bool {
    version.strip_prefix(label).is_some_and(|rest| rest.starts_with('.'))
}

/// All numbers of a version in order; comparing them orders the versions of one series.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_a_series_is_taken() {
        let names = [
            "linux-image-6.1.0-9-cloud-amd64",
            "linux-image-6.1.0-50-cloud-amd64",
            "linux-image-6.1.0-0.deb11.52-cloud-amd64",
            "linux-image-6.1.0-51-cloud-amd64-unsigned",
            "linux-image-6.1.0-52-amd64",
            "linux-image-6.1-cloud-amd64",
            "linux-image-6.12.9+deb12-cloud-amd64",
            "linux-image-6.12.117+deb12-cloud-amd64",
            "linux-image-cloud-amd64",
            "linux-image-6.1.0-53-cloud-arm64",
        ];
        assert_eq!(newest(Arch::Amd64, "6.1", &names).unwrap(), ["linux-image-6.1.0-50-cloud-amd64"]);
        assert_eq!(newest(Arch::Amd64, "6.12", &names).unwrap(), ["linux-image-6.12.117+deb12-cloud-amd64"]);
        assert_eq!(newest(Arch::Amd64, "5.10", &names), None);
        assert_eq!(newest(Arch::Arm64, "6.1", &names).unwrap(), ["linux-image-6.1.0-53-cloud-arm64"]);
    }

    #[test]
    fn a_kernel_in_parts_is_taken_whole_signed_or_not() {
        let mut names = vec![
            "linux-image-7.3.4+deb13-cloud-amd64",
            "linux-modules-7.3.1+deb13-cloud-amd64",
            "linux-modules-7.3.4+deb13-cloud-amd64",
            "linux-binary-unsigned-7.3.4+deb13-cloud-amd64",
        ];
        let modules = "linux-modules-7.3.4+deb13-cloud-amd64";
        assert_eq!(
            newest(Arch::Amd64, "7.3", &names).unwrap(),
            ["linux-binary-unsigned-7.3.4+deb13-cloud-amd64", modules]
        );
        let (binary, base) = ("linux-binary-7.3.4+deb13-cloud-amd64", "linux-base-7.3.4+deb13-cloud-amd64");
        names.extend([binary, base]);
        assert_eq!(newest(Arch::Amd64, "7.3", &names).unwrap(), [binary, modules, base]);
    }

    #[test]
    fn kernels_are_chosen_by_label() {
        let labels = |labels: &[&str], all| {
            let wanted: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
            select(&wanted, all).map(|chosen| chosen.iter().map(|series| series.label).collect::<Vec<_>>())
        };
        assert_eq!(labels(&[], false).unwrap(), SHORT);
        assert_eq!(labels(&["7.3", "6.1"], false).unwrap(), ["6.1", "7.3"]);
        assert_eq!(labels(&[], true).unwrap().len(), SERIES.len());
        let error = labels(&["4.19"], false).unwrap_err().to_string();
        assert!(error.contains("`4.19`") && error.contains("5.10, 6.1, 6.12, 7.3"), "{error}");
    }
}
