//! Empty programs: one beside each program of an attach mode, on the same hook.

use std::time::Duration;

use anyhow::{Context, Result};
use sysprobe_agent::bpf::{Loaded, Loader, ProgramStatistics, Scan};
use sysprobe_agent::probe::{AttachMode, Hook, Object, Program, ProgramSet};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("SYSPROBE_EBPF"), "/empty.o"));

/// How long a scan may take; it never does.
const AT_MOST: Duration = Duration::from_secs(60);

/// In the order of the hooks that they were started for; dropping them detaches them.
pub(crate) struct Empties(Vec<(Program, Loaded)>);

impl Empties {
    pub(crate) fn start(
        loader: &Loader,
        programs: impl IntoIterator<Item = &'static Program>,
    ) -> Result<Self> {
        let start = |program| {
            let mut loaded = loader.load(set(program), &[], &[])?;
            loaded.attach()?;
            anyhow::Ok((like(program), loaded))
        };
        let started = programs.into_iter().map(start).collect::<Result<_>>();
        started.map(Self).context("an empty program is refused where the product's is not")
    }

    /// `None` for one that the kernel refused.
    pub(crate) fn programs(&self) -> Vec<Option<ProgramStatistics>> {
        self.0.iter().map(|(_, loaded)| loaded.programs().next()).collect()
    }

    /// Runs those that are run on demand.
    pub(crate) fn run_on(&self, cpu: u32) -> Result<()> {
        let wanted = self.0.iter().filter(|(program, _)| program.hook == Hook::OnDemand);
        for (program, loaded) in wanted {
            loaded.run_on(program.name, &[cpu])?;
        }
        Ok(())
    }

    /// Runs those that go over all tasks.
    pub(crate) fn iterate(&mut self) -> Result<()> {
        for (program, loaded) in &mut self.0 {
            if matches!(program.hook, Hook::TaskIterator | Hook::TaskScan) {
                pass(loaded.scan(program.name))?;
            }
        }
        Ok(())
    }
}

/// Has a scan go over all objects once, if the kernel has taken its program.
pub(crate) fn pass(scan: Option<Scan>) -> Result<()> {
    if let Some(scan) = scan {
        scan.run(AT_MOST)?;
    }
    Ok(())
}

const fn like(program: &Program) -> Program {
    let Program { hook, older, required, .. } = *program;
    let name = match hook {
        Hook::TpBtf(_) => "empty_tp_btf",
        Hook::Fentry(_) => "empty_fentry",
        Hook::Fexit(_) => "empty_fexit",
        Hook::Kprobe(_) => "empty_kprobe",
        Hook::Kretprobe(_) => "empty_kretprobe",
        Hook::RawTp(_) | Hook::OnDemand | Hook::SocketIterator(_) => "empty_raw_tp",
        Hook::TaskIterator | Hook::TaskScan | Hook::FileIterator | Hook::FileScan => "empty_iter",
    };
    // There is no map of sockets for an empty program to go over.
    let hook = if matches!(hook, Hook::SocketIterator(_)) { Hook::OnDemand } else { hook };
    Program { older, required, ..Program::new(name, hook, "nothing") }
}

/// A table's row of its own. The few bytes are never given back: the loader wants rows that stay.
fn set(program: &Program) -> &'static ProgramSet {
    let programs = Box::leak(Box::new([like(program)]));
    let object = Object { file: "empty.o", bytes: OBJECT, maps: &[] };
    Box::leak(Box::new(ProgramSet { mode: AttachMode::TpBtf, object, programs, members: &[], needs: &[] }))
}
