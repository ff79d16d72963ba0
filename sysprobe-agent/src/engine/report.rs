//! What the engine says about itself: losses, maps, programs.

use std::time::Duration;

use super::Engine;
use crate::bpf::Loaded;
use crate::plan::MapMemory;
use crate::pods::SourceState;
use crate::snapshot::{AgentSample, LostUpdates, MapSample, PodSourceSample, ProgramSample};

impl Engine {
    pub(super) fn describe_agent(&mut self) -> AgentSample {
        let (cgroups_born, cgroups_died) = self.identity.tree().counts();
        let mut lost_updates = self.measured.losses();
        let lost = |domain: &str, reason: &str, count| LostUpdates {
            domain: domain.into(),
            reason: reason.into(),
            count,
        };
        let counted = self.identity.counted();
        lost_updates.extend([
            lost("cgroup", "ring_buffer_full", counted.ring_full),
            lost("cgroup", "unreadable", counted.unreadable),
            lost("cgroup", "malformed", self.identity.malformed()),
        ]);
        lost_updates.extend(self.files.losses());
        let loaded = self.identity.loaded().into_iter().chain(self.measured.loaded());
        let programs = loaded.flat_map(program_samples).collect();
        AgentSample {
            started_ns: self.started_ns,
            lost_updates,
            maps: self.map_samples(),
            programs,
            measuring: self.statistics.state(),
            cgroups_born,
            cgroups_died,
            cgroups_born_in_kernel: counted.born,
            cgroups_died_in_kernel: counted.died,
            pod_sources: self.attribution.pods().states().into_iter().map(source_sample).collect(),
            pod_watch_age_ns: self.attribution.pods().watch_age().map(nanoseconds),
            hidden: self.registry.hidden().map(|(hidden, count)| (hidden.name().to_owned(), count)).collect(),
            collect_ns: 0,
        }
    }

    fn map_samples(&mut self) -> Vec<MapSample> {
        let on = |name: &str| self.domains.iter().any(|domain| domain.name == name && domain.up);
        let maps = self.plan.maps.iter().filter(|map| on(map.domain));
        let sample = |map: &MapMemory| MapSample {
            map: map.map.to_lowercase(),
            entries: self.measured.entries(map.map),
            capacity: u64::from(map.entries),
            bytes: map.bytes,
        };
        maps.map(sample).collect()
    }
}

fn source_sample(state: SourceState) -> PodSourceSample {
    PodSourceSample { source: state.source.name().into(), up: state.up, reason: state.reason }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
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
