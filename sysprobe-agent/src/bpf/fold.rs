//! Puts settings into the instructions that use them. A program reads each setting, such as the offset of a
//! kernel member, from a read-only global, because rustc emits no relocations for offsets. To read a member
//! then takes two loads more than the member's own, a move and an addition. After folding, it takes one load.
//!
//! The verifier knows the values, too, but it removes only branches that depend on them. This file finds the
//! instructions in the object and takes away relocations that are no longer used; `peephole` changes the
//! instructions.

mod known;
mod liveness;
mod peephole;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use liveness::numbered;
use object::read::elf::{FileHeader, Rel, SectionHeader, Sym};
use object::{Endianness, SectionIndex, elf};

use super::instruction::{Instruction, SIZE};

type Header = elf::FileHeader64<Endianness>;
type Section = elf::SectionHeader64<Endianness>;
type Symbol = elf::Sym64<Endianness>;

/// The place of `sh_size` in a section's header.
const SIZE_IN_HEADER: usize = 32;

/// A section of programs, its relocations, and the settings that it uses.
struct Part {
    code: Range<usize>,
    relocations: Range<usize>,
    /// The place of the size of the relocations.
    size: usize,
    sites: Vec<Site>,
    /// The numbers of the instructions with which functions begin.
    entries: Vec<usize>,
}

/// A relocation of a load that loads the address of a setting.
struct Site {
    /// The number of the relocation.
    relocation: usize,
    /// The number of the instruction.
    instruction: usize,
    value: i32,
}

/// The object with the settings folded where that is possible. All others are read from the globals. `except`
/// names programs that are left as they are, with the other programs of their sections.
pub(super) fn fold(
    object: &[u8],
    settings: &[(&'static str, u32)],
    except: &[&str],
) -> object::Result<Vec<u8>> {
    // If a name is given twice, the last value counts.
    let mut settings: HashMap<_, _> =
        settings.iter().map(|(name, value)| (name.as_bytes(), *value)).collect();
    // Immediates are sign-extended, so large values stay globals.
    settings.retain(|_, value| i32::try_from(*value).is_ok());
    let mut folded = object.to_vec();
    for part in parts(object, &settings, except)? {
        part.fold_in(&mut folded);
    }
    Ok(folded)
}

fn parts(object: &[u8], settings: &HashMap<&[u8], u32>, except: &[&str]) -> object::Result<Vec<Part>> {
    let header = Header::parse(object)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, object)?;
    let symbols = sections.symbols(endian, object, elf::SHT_SYMTAB)?;
    let mut parts = Vec::new();
    for (number, section) in sections.iter().enumerate() {
        let Some((relocations, _)) = section.rel(endian, object)? else { continue };
        let index = section.info_link(endian);
        let code = sections.section(index)?;
        let is_code = code.sh_flags(endian) & u64::from(elf::SHF_EXECINSTR) != 0;
        if !is_code || code.sh_type(endian) != elf::SHT_PROGBITS {
            continue;
        }
        // Not beyond the end of the object.
        code.data(endian, object)?;
        let is_setting = |symbol: &Symbol| {
            let holder = sections.section(SectionIndex(symbol.st_shndx(endian).into()));
            let is_constant =
                holder.is_ok_and(|holder| holder.sh_flags(endian) & u64::from(elf::SHF_WRITE) == 0);
            is_constant && symbol.st_size(endian) == size_of::<u32>() as u64
        };
        let mut sites = Vec::new();
        for (number, relocation) in relocations.iter().enumerate() {
            let Some(symbol) = relocation.symbol(endian) else { continue };
            let symbol = symbols.symbol(symbol)?;
            let value = settings.get(symbols.symbol_name(endian, symbol)?);
            let is_load = relocation.r_type(endian) == elf::R_BPF_64_64;
            if let Some(value) = value.filter(|_| is_load && is_setting(symbol)) {
                let instruction = place(relocation.r_offset(endian)) / SIZE;
                sites.push(Site { relocation: number, instruction, value: value.cast_signed() });
            }
        }
        let is_function = |symbol: &&Symbol| {
            symbol.st_type() == elf::STT_FUNC && usize::from(symbol.st_shndx(endian)) == index.0
        };
        let functions: Vec<_> = symbols.iter().filter(is_function).collect();
        let is_excepted = |function: &&Symbol| {
            let name = symbols.symbol_name(endian, function).unwrap_or_default();
            except.iter().any(|other| other.as_bytes() == name)
        };
        // Any program may call functions of `.text`.
        let is_shared = sections.section_name(endian, code)? == b".text";
        if functions.iter().any(is_excepted) || is_shared && !except.is_empty() {
            continue;
        }
        let entries = functions.iter().map(|function| place(function.st_value(endian)) / SIZE).collect();
        let size = place(header.e_shoff(endian)) + number * size_of::<Section>() + SIZE_IN_HEADER;
        let (code, relocations) = (range(code, endian), range(section, endian));
        parts.push(Part { code, relocations, size, sites, entries });
    }
    Ok(parts)
}

fn range(section: &Section, endian: Endianness) -> Range<usize> {
    let start = place(section.sh_offset(endian));
    start..start + place(section.sh_size(endian))
}

#[expect(clippy::cast_possible_truncation, reason = "the object is in memory")]
const fn place(offset: u64) -> usize {
    offset as usize
}

impl Part {
    fn fold_in(&self, object: &mut [u8]) {
        let (code, _) = object[self.code.clone()].as_chunks::<SIZE>();
        let mut code: Vec<_> = code.iter().map(|bytes| Instruction::from_bytes(*bytes)).collect();
        let is_address = |site: &&Site| Self::is_address(&code, site);
        let loads: BTreeMap<_, _> =
            self.sites.iter().filter(is_address).map(|site| (site.instruction, site.value)).collect();
        if loads.is_empty() || !numbered(&code).all(|(_, instruction)| instruction.is_known()) {
            return;
        }
        let unused = peephole::fold(&mut code, &loads, &self.entries);
        for (bytes, instruction) in object[self.code.clone()].chunks_exact_mut(SIZE).zip(code) {
            bytes.copy_from_slice(&instruction.to_bytes());
        }
        self.remove_relocations(object, |site| unused.contains(&site.instruction));
    }

    /// Whether the instruction loads the address of the setting itself, without an addend.
    fn is_address(code: &[Instruction], site: &Site) -> bool {
        let slots = code.get(site.instruction..site.instruction + 2);
        slots.is_some_and(|slots| slots == Instruction::load_wide((slots[0].to(), 0), 0))
    }

    fn remove_relocations(&self, object: &mut [u8], is_unused: impl Fn(&Site) -> bool) {
        const EACH: usize = size_of::<elf::Rel64<Endianness>>();
        let removed: Vec<_> =
            self.sites.iter().filter(|site| is_unused(site)).map(|site| site.relocation).collect();
        let mut kept = self.relocations.start;
        for (number, from) in self.relocations.clone().step_by(EACH).enumerate() {
            if !removed.contains(&number) {
                object.copy_within(from..from + EACH, kept);
                kept += EACH;
            }
        }
        let size = (kept - self.relocations.start) as u64;
        object[self.size..self.size + size_of::<u64>()].copy_from_slice(&size.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests;
