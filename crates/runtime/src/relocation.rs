//! How each relocation of the two instruction sets is computed and written; pure arithmetic on bytes.

use object::elf;

/// An instruction set the loader understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// x86-64.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

/// What a relocation needs besides the address of its symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it uses the symbol's address.
    Address,
    /// Something near: a function outside the object is reached through a stub.
    Near,
    /// A slot of the global offset table that holds the address.
    Slot,
}

/// Why one relocation could not be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The loader does not know the relocation type.
    Unsupported,
    /// The value does not fit the field.
    OutOfRange,
    /// The field lies outside its section.
    OutOfSection,
}

impl Machine {
    /// The machine this process runs on, if the loader supports it.
    pub fn host() -> Option<Machine> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Machine::X86_64),
            "aarch64" => Some(Machine::Aarch64),
            _ => None,
        }
    }

    /// What a relocation of type `kind` needs; `None` if the type is not supported.
    pub fn needs(self, kind: u32) -> Option<Needs> {
        match self {
            Machine::X86_64 => match kind {
                elf::R_X86_64_64 | elf::R_X86_64_32 | elf::R_X86_64_32S | elf::R_X86_64_PC64 => {
                    Some(Needs::Address)
                }
                elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => Some(Needs::Near),
                elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCRELX | elf::R_X86_64_REX_GOTPCRELX => {
                    Some(Needs::Slot)
                }
                _ => None,
            },
            Machine::Aarch64 => match kind {
                elf::R_AARCH64_ABS64 | elf::R_AARCH64_ABS32 | elf::R_AARCH64_PREL64 => Some(Needs::Address),
                elf::R_AARCH64_PREL32
                | elf::R_AARCH64_ADR_PREL_LO21
                | elf::R_AARCH64_ADR_PREL_PG_HI21
                | elf::R_AARCH64_ADR_PREL_PG_HI21_NC
                | elf::R_AARCH64_ADD_ABS_LO12_NC
                | elf::R_AARCH64_LDST8_ABS_LO12_NC
                | elf::R_AARCH64_LDST16_ABS_LO12_NC
                | elf::R_AARCH64_LDST32_ABS_LO12_NC
                | elf::R_AARCH64_LDST64_ABS_LO12_NC
                | elf::R_AARCH64_LDST128_ABS_LO12_NC
                | elf::R_AARCH64_TSTBR14
                | elf::R_AARCH64_CONDBR19
                | elf::R_AARCH64_JUMP26
                | elf::R_AARCH64_CALL26 => Some(Needs::Near),
                elf::R_AARCH64_ADR_GOT_PAGE | elf::R_AARCH64_LD64_GOT_LO12_NC => Some(Needs::Slot),
                _ => None,
            },
        }
    }

    /// Bytes of one far-call stub.
    pub fn stub_bytes(self) -> usize {
        16
    }

    /// A stub at address `at` that jumps to the address in the table slot at `slot`.
    pub fn stub(self, at: u64, slot: u64) -> Result<[u8; 16], Refusal> {
        let mut code = [0; 16];
        match self {
            Machine::X86_64 => {
                // jmp *[rip + disp32]
                let displacement = fit_signed(slot.wrapping_sub(at + 6) as i64, 32)? as u32;
                code[..2].copy_from_slice(&[0xff, 0x25]);
                code[2..6].copy_from_slice(&displacement.to_le_bytes());
                code[6..].fill(0xcc);
            }
            Machine::Aarch64 => {
                // adrp x16, slot; ldr x16, [x16, lo12(slot)]; br x16; brk 0
                let adrp = with_adr_immediate(0x9000_0010, page_delta(slot, at)?);
                let load = 0xf940_0210 | ((((slot & 0xfff) >> 3) as u32) << 10);
                for (word, bytes) in [adrp, load, 0xd61f_0200, 0xd420_0000].iter().zip(code.chunks_mut(4)) {
                    bytes.copy_from_slice(&word.to_le_bytes());
                }
            }
        }
        Ok(code)
    }

    /// Applies one relocation: `section` is the section's bytes, which start at address `base`, `offset` the
    /// field in it, and `target` the address of the symbol, stub or slot, without the `addend`.
    pub fn apply(
        self,
        kind: u32,
        section: &mut [u8],
        base: u64,
        offset: u64,
        target: u64,
        addend: i64,
    ) -> Result<(), Refusal> {
        let place = base.wrapping_add(offset);
        let value = target.wrapping_add_signed(addend);
        let relative = value.wrapping_sub(place) as i64;
        match self {
            Machine::X86_64 => match kind {
                elf::R_X86_64_64 => write(section, offset, &value.to_le_bytes()),
                elf::R_X86_64_PC64 => write(section, offset, &relative.to_le_bytes()),
                elf::R_X86_64_32 => {
                    let value = u32::try_from(value).map_err(|_| Refusal::OutOfRange)?;
                    write(section, offset, &value.to_le_bytes())
                }
                elf::R_X86_64_32S => {
                    write(section, offset, &(fit_signed(value as i64, 32)? as i32).to_le_bytes())
                }
                elf::R_X86_64_PC32
                | elf::R_X86_64_PLT32
                | elf::R_X86_64_GOTPCREL
                | elf::R_X86_64_GOTPCRELX
                | elf::R_X86_64_REX_GOTPCRELX => {
                    write(section, offset, &(fit_signed(relative, 32)? as i32).to_le_bytes())
                }
                _ => Err(Refusal::Unsupported),
            },
            Machine::Aarch64 => match kind {
                elf::R_AARCH64_ABS64 => write(section, offset, &value.to_le_bytes()),
                elf::R_AARCH64_PREL64 => write(section, offset, &relative.to_le_bytes()),
                elf::R_AARCH64_ABS32 => {
                    let value = u32::try_from(value).map_err(|_| Refusal::OutOfRange)?;
                    write(section, offset, &value.to_le_bytes())
                }
                elf::R_AARCH64_PREL32 => {
                    write(section, offset, &(fit_signed(relative, 32)? as i32).to_le_bytes())
                }
                elf::R_AARCH64_ADR_PREL_LO21 => {
                    let delta = fit_signed(relative, 21)?;
                    patch(section, offset, |word| with_adr_immediate(word, delta))
                }
                elf::R_AARCH64_ADR_PREL_PG_HI21 | elf::R_AARCH64_ADR_GOT_PAGE => {
                    let delta = page_delta(value, place)?;
                    patch(section, offset, |word| with_adr_immediate(word, delta))
                }
                elf::R_AARCH64_ADR_PREL_PG_HI21_NC => {
                    let delta = ((value >> 12) as i64).wrapping_sub((place >> 12) as i64);
                    patch(section, offset, |word| with_adr_immediate(word, delta))
                }
                elf::R_AARCH64_ADD_ABS_LO12_NC | elf::R_AARCH64_LDST8_ABS_LO12_NC => {
                    patch_low12(section, offset, value, 0)
                }
                elf::R_AARCH64_LDST16_ABS_LO12_NC => patch_low12(section, offset, value, 1),
                elf::R_AARCH64_LDST32_ABS_LO12_NC => patch_low12(section, offset, value, 2),
                elf::R_AARCH64_LDST64_ABS_LO12_NC | elf::R_AARCH64_LD64_GOT_LO12_NC => {
                    patch_low12(section, offset, value, 3)
                }
                elf::R_AARCH64_LDST128_ABS_LO12_NC => patch_low12(section, offset, value, 4),
                elf::R_AARCH64_JUMP26 | elf::R_AARCH64_CALL26 => {
                    patch_branch(section, offset, relative, 26, 0)
                }
                elf::R_AARCH64_CONDBR19 => patch_branch(section, offset, relative, 19, 5),
                elf::R_AARCH64_TSTBR14 => patch_branch(section, offset, relative, 14, 5),
                _ => Err(Refusal::Unsupported),
            },
        }
    }
}

fn fit_signed(value: i64, bits: u32) -> Result<i64, Refusal> {
    let limit = 1i64 << (bits - 1);
    if (-limit..limit).contains(&value) { Ok(value) } else { Err(Refusal::OutOfRange) }
}

fn write(section: &mut [u8], offset: u64, bytes: &[u8]) -> Result<(), Refusal> {
    let start = usize::try_from(offset).map_err(|_| Refusal::OutOfSection)?;
    let end = start.checked_add(bytes.len()).ok_or(Refusal::OutOfSection)?;
    section.get_mut(start..end).ok_or(Refusal::OutOfSection)?.copy_from_slice(bytes);
    Ok(())
}

/// Rewrites one little-endian instruction word.
fn patch(section: &mut [u8], offset: u64, edit: impl FnOnce(u32) -> u32) -> Result<(), Refusal> {
    let start = usize::try_from(offset).map_err(|_| Refusal::OutOfSection)?;
    let field = section.get(start..).and_then(|rest| rest.first_chunk::<4>()).ok_or(Refusal::OutOfSection)?;
    write(section, offset, &edit(u32::from_le_bytes(*field)).to_le_bytes())
}

/// The distance in 4 KiB pages, as `adrp` takes it.
fn page_delta(value: u64, place: u64) -> Result<i64, Refusal> {
    fit_signed((value >> 12) as i64 - (place >> 12) as i64, 21)
}

/// `adr`/`adrp`: two low bits of the immediate at bit 29, nineteen high ones at bit 5.
fn with_adr_immediate(word: u32, immediate: i64) -> u32 {
    let immediate = immediate as u32;
    (word & !0x60ff_ffe0) | ((immediate & 3) << 29) | (((immediate >> 2) & 0x7_ffff) << 5)
}

/// The low twelve bits of an address, in units of the access size, as an unsigned immediate at bit 10.
fn patch_low12(section: &mut [u8], offset: u64, value: u64, scale: u32) -> Result<(), Refusal> {
    if value & ((1 << scale) - 1) != 0 {
        return Err(Refusal::OutOfRange);
    }
    let immediate = ((value & 0xfff) >> scale) as u32;
    patch(section, offset, |word| (word & !(0xfff << 10)) | (immediate << 10))
}

/// A branch distance in words of `bits` bits at bit `shift`.
fn patch_branch(
    section: &mut [u8],
    offset: u64,
    relative: i64,
    bits: u32,
    shift: u32,
) -> Result<(), Refusal> {
    if relative & 3 != 0 {
        return Err(Refusal::OutOfRange);
    }
    let mask = (1u32 << bits) - 1;
    let immediate = fit_signed(relative >> 2, bits)? as u32 & mask;
    patch(section, offset, |word| (word & !(mask << shift)) | (immediate << shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(kind: u32, word: u32, place: u64, target: u64) -> Result<u32, Refusal> {
        let mut bytes = word.to_le_bytes();
        Machine::Aarch64.apply(kind, &mut bytes, place, 0, target, 0).map(|()| u32::from_le_bytes(bytes))
    }

    #[test]
    fn aarch64_fields() {
        // adrp x0, +5 pages; adrp x0, -1 page
        assert_eq!(
            arm(elf::R_AARCH64_ADR_PREL_PG_HI21, 0x9000_0000, 0x1ffc, 0x6008).unwrap(),
            0x9000_0000 | (1 << 29) | (1 << 5)
        );
        assert_eq!(arm(elf::R_AARCH64_ADR_PREL_PG_HI21, 0x9000_0000, 0x2000, 0x1fff).unwrap(), 0xf0ff_ffe0);
        // add x0, x0, #0x678; ldr q0, [x0, #0x670]; ldr x0, [x0, #0x678]
        assert_eq!(
            arm(elf::R_AARCH64_ADD_ABS_LO12_NC, 0x9100_0000, 0, 0x5678).unwrap(),
            0x9100_0000 | (0x678 << 10)
        );
        assert_eq!(
            arm(elf::R_AARCH64_LDST128_ABS_LO12_NC, 0x3dc0_0000, 0, 0x5670).unwrap(),
            0x3dc0_0000 | (0x67 << 10)
        );
        assert_eq!(
            arm(elf::R_AARCH64_LD64_GOT_LO12_NC, 0xf940_0000, 0, 0x5678).unwrap(),
            0xf940_0000 | (0xcf << 10)
        );
        // bl +8; b -4
        assert_eq!(arm(elf::R_AARCH64_CALL26, 0x9400_0000, 0x1000, 0x1008).unwrap(), 0x9400_0002);
        assert_eq!(arm(elf::R_AARCH64_JUMP26, 0x1400_0000, 0x1000, 0x0ffc).unwrap(), 0x17ff_ffff);
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        assert_eq!(arm(elf::R_AARCH64_CALL26, 0x9400_0000, 0, 1 << 27), Err(Refusal::OutOfRange));
        assert_eq!(arm(elf::R_AARCH64_CALL26, 0x9400_0000, 0, 2), Err(Refusal::OutOfRange));
        assert_eq!(arm(elf::R_AARCH64_ADR_PREL_PG_HI21, 0x9000_0000, 0, 1 << 40), Err(Refusal::OutOfRange));
        assert_eq!(arm(elf::R_AARCH64_LDST64_ABS_LO12_NC, 0, 0, 4), Err(Refusal::OutOfRange));
        assert_eq!(arm(9999, 0, 0, 4), Err(Refusal::Unsupported));
        let mut field = [0u8; 4];
        let x86 = Machine::X86_64;
        assert_eq!(x86.apply(elf::R_X86_64_PC32, &mut field, 0, 0, 1 << 31, 0), Err(Refusal::OutOfRange));
        assert_eq!(x86.apply(elf::R_X86_64_PC32, &mut field, 0, 1, 0, 0), Err(Refusal::OutOfSection));
        assert_eq!(x86.apply(elf::R_X86_64_PC32, &mut field, 0, u64::MAX, 0, 0), Err(Refusal::OutOfSection));
        assert_eq!(x86.apply(elf::R_X86_64_64, &mut field, 0, 0, 0, 0), Err(Refusal::OutOfSection));
    }

    #[test]
    fn x86_fields_and_stub() {
        let mut field = [0u8; 8];
        Machine::X86_64.apply(elf::R_X86_64_PLT32, &mut field, 0x1000, 2, 0x2000, -4).unwrap();
        assert_eq!(field, [0, 0, 0xfa, 0x0f, 0, 0, 0, 0]);
        let stub = Machine::X86_64.stub(0x1000, 0x2000).unwrap();
        assert_eq!(stub[..6], [0xff, 0x25, 0xfa, 0x0f, 0, 0]);
        let stub = Machine::Aarch64.stub(0x1000, 0x2008).unwrap();
        assert_eq!(stub[..4], 0xb000_0010u32.to_le_bytes());
        assert_eq!(stub[4..8], (0xf940_0210u32 | (1 << 10)).to_le_bytes());
    }
}
