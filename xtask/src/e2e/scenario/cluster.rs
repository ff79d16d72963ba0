//! Checks the rig itself, which the other scenarios rely on.

use anyhow::Result;

use crate::e2e::kernel;
use crate::e2e::report::Report;
use crate::e2e::rig::Rig;

pub(super) fn run(rig: &mut Rig, report: &mut Report) -> Result<()> {
    let now = rig.look()?;
    report.check("cluster", "cgroups are where Kubernetes has them", kernel::check_paths(&now.containers));
    Ok(())
}
