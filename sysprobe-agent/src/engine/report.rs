//! The agent's own state: losses, maps, programs.

use super::Engine;
use crate::bpf::Loaded;
use crate::host;
use crate::plan::MapMemory;
use crate::pods::SourceState;
use crate::snapshot::{AgentSample, LostUpdates, MapSample, PodSourceSample, ProgramSample, ScanSample};
use crate::storage;

impl Engine {
    pub(super) fn describe_agent(&mut self) -> AgentSample {
        let (cgroups_born, cgroups_died) = self.tracker.tree().counts();
        let mut lost_updates = self.bpf_domains.losses();
        let lost = |domain: &str, reason: &str, count| LostUpdates {
            domain: domain.into(),
            reason: reason.into(),
            count,
        };
        let stores = self.bpf_domains.stores();
        lost_updates.extend(stores.iter().map(|store| store.loss()));
        let storages = storage::samples(&stores, &self.population);
        let counted = self.tracker.counted();
        lost_updates.extend([
            lost("cgroup", "ring_buffer_full", counted.ring_full),
            lost("cgroup", "unreadable", counted.unreadable),
            lost("cgroup", "malformed", self.tracker.malformed()),
            lost("cgroup", "path_too_long", self.tracker.tree().too_long()),
        ]);
        let of_pods = self.attribution.pods().losses();
        lost_updates.extend(of_pods.map(|(reason, count)| lost("pods", reason, count)));
        lost_updates.push(lost("pods", "no_name", self.attribution.without_name()));
        lost_updates.extend(self.files.losses());
        let loaded = self.tracker.loaded().into_iter().chain(self.bpf_domains.loaded());
        let programs = loaded.flat_map(program_samples).collect();
        AgentSample {
            started_ns: self.started_ns,
            started_unix_ms: self.started_unix_ms,
            rx_followed_ratio: self.bpf_domains.rxpath().map(|rxpath| rxpath.followed_ratio()),
            lost_updates,
            maps: self.map_samples(),
            storages,
            programs,
            measuring: self.statistics.state(),
            cgroups_born,
            cgroups_died,
            cgroups_born_in_kernel: counted.born,
            cgroups_died_in_kernel: counted.died,
            pod_sources: self.attribution.pods().states().into_iter().map(source_sample).collect(),
            pod_watch_age_ns: self.attribution.pods().watch_age().map(host::nanoseconds),
            hidden: self.registry.hidden().map(|(hidden, count)| (hidden.name().to_owned(), count)).collect(),
            interference_lost_ns: self.bpf_domains.unplaced_ns(),
            collect_ns: 0,
            scans: self.scan_samples(),
            refused: Vec::new(),
        }
    }

    fn scan_samples(&self) -> Vec<ScanSample> {
        let programs = self.bpf_domains.loaded().flat_map(Loaded::scans).map(|scan| ScanSample {
            scan: scan.program.into(),
            passes: scan.passes,
            truncated: scan.cut,
            last_ns: scan.took_ns,
            longest_part_ns: scan.longest_ns,
        });
        programs.chain([self.tracker.walks(), self.files.scan()]).collect()
    }

    fn map_samples(&self) -> Vec<MapSample> {
        let in_use = self.bpf_domains.in_use();
        // A paused domain keeps its maps.
        let is_loaded =
            |name: &str| self.domains.iter().any(|domain| domain.name == name && !domain.mode.is_empty());
        let maps = self.plan.maps.iter().filter(|map| is_loaded(map.domain));
        let sample = |map: &MapMemory| MapSample {
            map: map.map.to_lowercase(),
            entries: in_use.get(map.map).copied(),
            capacity: u64::from(map.entries),
            bytes: map.bytes,
        };
        maps.map(sample).collect()
    }
}

fn source_sample(state: SourceState) -> PodSourceSample {
    PodSourceSample { source: state.source.name().into(), up: state.up, reason: state.reason }
}

fn program_samples(loaded: &Loaded) -> impl Iterator<Item = ProgramSample> {
    loaded.programs().map(|program| ProgramSample {
        program: program.name.into(),
        domain: loaded.domain().into(),
        hook: program.hook.to_string(),
        runs: program.runs,
        run_ns: program.run_ns,
        missed: program.missed,
    })
}
