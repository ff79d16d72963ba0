//! Removes the debug information from an object. bpf-linker makes BTF from it and leaves it in. Nothing reads
//! it afterwards, and the agent would need five times the memory for its objects. Everything that the loader
//! reads stays: code, maps, licence, BTF, symbols.
//!
//! LLVM's `objcopy` could do this, but it may be missing on machines with a prebuilt `bpf-linker`.

use anyhow::{Result, bail};
use object::build::elf::{Builder, Section, SectionData};
use object::elf::SHT_STRTAB;

/// The object without its sections `.debug_*` and their relocations.
pub(super) fn strip(object: &[u8]) -> Result<Vec<u8>> {
    let mut builder = Builder::read(object)?;
    for section in &mut builder.sections {
        section.delete = is_debug(section);
    }
    if builder.sections.iter().all(|section| section.delete || &section.name[..] != b".BTF") {
        bail!("it has no BTF");
    }
    // LLVM keeps the names of sections and symbols in one table; the `object` library writes two.
    if !builder.sections.iter().any(|section| matches!(section.data, SectionData::SectionString)) {
        let names = builder.sections.add();
        names.name = b".shstrtab"[..].into();
        names.sh_type = SHT_STRTAB;
        names.sh_addralign = 1;
        names.data = SectionData::SectionString;
    }
    let mut stripped = Vec::new();
    builder.write(&mut stripped)?;
    Ok(stripped)
}

fn is_debug(section: &Section<'_>) -> bool {
    let name = section.name.strip_prefix(b".rel").unwrap_or(&section.name);
    name.starts_with(b".debug_")
}

#[cfg(test)]
mod tests {
    use object::Endianness;
    use object::build::elf::{Relocation, SectionId, SymbolId};
    use object::elf::{EM_BPF, ET_REL, R_BPF_64_64, SHF_INFO_LINK, SHT_PROGBITS, SHT_REL, SHT_SYMTAB};
    use object::read::elf::ElfFile64;
    use object::{Object, ObjectSection, ObjectSymbol};

    use super::*;

    /// An object with the named sections. Each holds four bytes, a symbol, and a relocation to that symbol.
    fn object(names: &'static [&'static str]) -> Vec<u8> {
        let mut builder = Builder::new(Endianness::Little, true);
        (builder.header.e_type, builder.header.e_machine) = (ET_REL, EM_BPF);
        for (name, kind, data) in [
            (".shstrtab", SHT_STRTAB, SectionData::SectionString),
            (".strtab", SHT_STRTAB, SectionData::String),
            (".symtab", SHT_SYMTAB, SectionData::Symbol),
        ] {
            let section = builder.sections.add();
            (section.name, section.sh_type, section.data) = (name.as_bytes().into(), kind, data);
        }
        for name in names {
            let section = builder.sections.add();
            section.name = name.as_bytes().into();
            (section.sh_type, section.sh_addralign) = (SHT_PROGBITS, 1);
            section.data = SectionData::Data(b"data"[..].into());
            let section = section.id();
            let symbol = builder.symbols.add();
            symbol.name = format!("in{name}").into_bytes().into();
            symbol.section = Some(section);
            let symbol = symbol.id();
            relocate(&mut builder, name, section, symbol);
        }
        let mut bytes = Vec::new();
        builder.write(&mut bytes).unwrap();
        bytes
    }

    fn relocate(builder: &mut Builder<'_>, name: &str, section: SectionId, symbol: SymbolId) {
        let symbols = builder.sections.iter().find(|section| matches!(section.data, SectionData::Symbol));
        let symbols = symbols.map(Section::id);
        let relocations = builder.sections.add();
        relocations.name = format!(".rel{name}").into_bytes().into();
        (relocations.sh_type, relocations.sh_info_section) = (SHT_REL, Some(section));
        relocations.sh_flags = SHF_INFO_LINK.into();
        relocations.sh_link_section = symbols;
        let to = Relocation { r_offset: 0, symbol: Some(symbol), r_type: R_BPF_64_64, r_addend: 0 };
        relocations.data = SectionData::Relocation(vec![to]);
    }

    #[test]
    fn debug_information_goes_and_everything_else_stays_as_it_was() {
        let stripped = strip(&object(&["tp_btf/x", ".debug_info", ".BTF", ".debug_line", ".maps"])).unwrap();
        let object = ElfFile64::<Endianness>::parse(&*stripped).unwrap();
        let contents = |section: object::read::elf::ElfSection64<'_, '_, Endianness>| {
            (
                section.name().unwrap().to_owned(),
                section.data().unwrap().to_vec(),
                section.relocations().count(),
            )
        };
        let sections: Vec<_> =
            object.sections().map(contents).filter(|(_, data, _)| data == b"data").collect();
        let expected = ["tp_btf/x", ".BTF", ".maps"].map(|name| (name.to_owned(), b"data".to_vec(), 1));
        assert_eq!(sections, expected);
        let symbols: Vec<_> = object.symbols().map(|symbol| symbol.name().unwrap()).collect();
        assert_eq!(symbols, ["intp_btf/x", "in.BTF", "in.maps"]);
        assert_eq!(strip(&stripped).unwrap(), stripped, "nothing is left to be taken away");
    }

    #[test]
    fn what_has_no_types_is_no_object_of_ours() {
        assert!(strip(&object(&["tp_btf/x"])).is_err());
        assert!(strip(b"one").is_err());
    }
}
