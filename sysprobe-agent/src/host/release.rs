//! Kernel releases, compared as numbers.

/// The first two numbers of a release.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '+']).map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// Whether a kernel is older than a version, by its release. A release that is not a number counts as new.
pub(crate) fn is_before(release: &str, version: (u32, u32)) -> bool {
    version_of(release).is_some_and(|own| own < version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        let old = ["5.10.0-46-cloud-amd64", "5.9-rc1", "4.18.0-553.el8.x86_64"];
        assert!(old.into_iter().all(|release| is_before(release, (5, 11))));
        let new = ["5.11.0", "5.11", "6.1.0", "10.0", "?", ""];
        assert!(!new.into_iter().any(|release| is_before(release, (5, 11))));
    }
}
