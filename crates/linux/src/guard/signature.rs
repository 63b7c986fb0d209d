//! Signatures at the beginning and end of disks.
//!
//! The offsets are those of the formats' own headers and of util-linux (`libblkid/src/superblocks`,
//! `libblkid/src/partitions`). Only magics are compared, not checksums: a possible file system is
//! treated as one.

use std::io;

use ioecho_trace::Bytes;

use super::content::Content;
use super::hazard::Hazard;

use Position::{Aligned, End, Start};
use Worth::{Alone, Member};

/// Where a signature stands.
#[derive(Clone, Copy)]
enum Position {
    /// So many bytes from the start.
    Start(u64),
    /// So many bytes before the end.
    End(u64),
    /// So many bytes before the last multiple of the first number.
    Aligned(u64, u64),
}

/// How much is lost with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Worth {
    /// This target.
    Alone,
    /// The set of which it is a member.
    Member,
}

const KIB: u64 = 1024;
const MD: &[u8] = b"\xfc\x4e\x2b\xa9";
const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";

#[rustfmt::skip]
const TABLE: &[(&str, Worth, Position, &[u8])] = &[
    // File systems. ext: fs/ext4/ext4.h, superblock at 1024, s_magic at 0x38.
    ("an ext2/3/4 file system", Alone, Start(0x438), b"\x53\xef"),
    ("an xfs file system", Alone, Start(0), b"XFSB"),
    // fs/btrfs: BTRFS_SUPER_INFO_OFFSET 64 KiB, magic at 0x40; a file system may span devices.
    ("a btrfs file system", Member, Start(0x1_0040), b"_BHRfS_M"),
    ("an f2fs file system", Alone, Start(0x400), b"\x10\x20\xf5\xf2"),
    ("a bcachefs file system", Member, Start(0x1018), BCACHEFS),
    ("an NTFS file system", Alone, Start(3), b"NTFS    "),
    ("an exFAT file system", Alone, Start(3), b"EXFAT   "),
    ("a ReFS file system", Alone, Start(3), b"ReFS\0\0\0\0"),
    ("a FAT file system", Alone, Start(0x36), b"FAT12   "),
    ("a FAT file system", Alone, Start(0x36), b"FAT16   "),
    ("a FAT file system", Alone, Start(0x52), b"FAT32   "),
    ("a squashfs file system", Alone, Start(0), b"hsqs"),
    ("an EROFS file system", Alone, Start(0x400), b"\xe2\xe1\xf5\xe0"),
    ("an ISO 9660 file system", Alone, Start(0x8001), b"CD001"),
    ("a UDF file system", Alone, Start(0x8001), b"BEA01"),
    ("a JFS file system", Alone, Start(0x8000), b"JFS1"),
    ("a reiserfs file system", Alone, Start(0x1_0034), b"ReIsEr"),
    ("an HFS+ file system", Alone, Start(0x400), b"H+\0\x04"),
    ("an APFS container", Alone, Start(0x20), b"NXSB"),
    ("a nilfs2 file system", Alone, Start(0x406), b"\x34\x34"),
    ("a GFS2 file system", Alone, Start(0x1_0000), b"\x01\x16\x19\x70"),
    ("an OCFS2 file system", Alone, Start(0x2000), b"OCFSV2"),
    ("a VMFS file system", Alone, Start(2048 * KIB), b"\x5e\xf1\xab\x2f"),
    ("a VMFS volume", Member, Start(1024 * KIB), b"\x0d\xd0\x01\xc0"),
    // Encryption. LUKS2 keeps a second header behind the first, 16 KiB to 4 MiB away.
    ("a LUKS volume", Alone, Start(0), b"LUKS\xba\xbe"),
    ("a LUKS volume (second header)", Alone, Start(0x4000), b"SKUL\xba\xbe"),
    ("a BitLocker volume", Alone, Start(3), b"-FVE-FS-"),
    // Swap, at the end of the first page of 4, 16 or 64 KiB; and hibernation in its place.
    ("a swap area", Alone, Start(0xff6), b"SWAPSPACE2"),
    ("a swap area", Alone, Start(0xff6), b"SWAP-SPACE"),
    ("a swap area", Alone, Start(0x3ff6), b"SWAPSPACE2"),
    ("a swap area", Alone, Start(0xfff6), b"SWAPSPACE2"),
    ("a hibernated system", Alone, Start(0xff6), b"S1SUSPEND"),
    ("a hibernated system", Alone, Start(0xff6), b"LINHIB0001"),
    // LVM2: the label is in one of the first four sectors (lib/label/label.h).
    ("an LVM volume group", Member, Start(0), b"LABELONE"),
    ("an LVM volume group", Member, Start(512), b"LABELONE"),
    ("an LVM volume group", Member, Start(1024), b"LABELONE"),
    ("an LVM volume group", Member, Start(1536), b"LABELONE"),
    // MD (include/uapi/linux/raid/md_p.h): 1.1, 1.2, 1.0, 0.90.
    ("an MD RAID array", Member, Start(0), MD),
    ("an MD RAID array", Member, Start(4096), MD),
    ("an MD RAID array", Member, Aligned(4 * KIB, 8 * KIB), MD),
    ("an MD RAID array", Member, Aligned(64 * KIB, 64 * KIB), MD),
    ("an MD RAID array", Member, Aligned(64 * KIB, 64 * KIB), b"\xa9\x2b\x4e\xfc"),
    // DRBD: the last 4 KiB, magic at 60; versions 8, 8.4 unclean and 9.
    ("a DRBD resource", Member, End(4096 - 60), b"\x83\x74\x02\x6b"),
    ("a DRBD resource", Member, End(4096 - 60), b"\x83\x74\x02\x6c"),
    ("a DRBD resource", Member, End(4096 - 60), b"\x83\x74\x02\x6d"),
    ("a bcache set", Member, Start(0x1018), BCACHE),
    ("a Ceph OSD (BlueStore)", Member, Start(0), b"bluestore block device"),
    ("an Oracle ASM disk group", Member, Start(32), b"ORCLDISK"),
    // GPT: the second and the last block, of 512 or 4096 bytes (UEFI specification, 5.3).
    ("a GPT partition table", Alone, Start(512), b"EFI PART"),
    ("a GPT partition table", Alone, Start(4096), b"EFI PART"),
    ("a GPT partition table (the copy at the end)", Alone, End(512), b"EFI PART"),
    ("a GPT partition table (the copy at the end)", Alone, End(4096), b"EFI PART"),
];

/// Everything that the table finds.
pub(super) fn find(content: &Content<'_>) -> io::Result<Vec<Hazard>> {
    let mut found: Vec<Hazard> = Vec::new();
    let mut names = Vec::new();
    for (what, worth, place, magic) in TABLE {
        let Some(at) = position(*place, content.size) else { continue };
        if !names.contains(what) && content.has(at, magic)? {
            names.push(what);
            found.push(hazard(what, *worth, at));
        }
    }
    if let Some(at) = zfs(content)? {
        found.push(hazard("a ZFS pool", Member, at));
    }
    // Boot sectors of file systems and the sector before a GPT end alike.
    if found.is_empty() && content.has(510, b"\x55\xaa")? {
        found.push(hazard("an MBR partition table or a boot sector", Alone, 510));
    }
    Ok(found)
}

fn hazard(what: &str, worth: Worth, at: u64) -> Hazard {
    let (what, at) = (what.to_owned(), Some(Bytes(at)));
    match worth {
        Alone => Hazard::Signature { what, at },
        Member => Hazard::PartOf { what, at },
    }
}

fn position(place: Position, size: u64) -> Option<u64> {
    match place {
        Start(offset) => Some(offset),
        End(back) => size.checked_sub(back),
        Aligned(unit, back) => (size / unit * unit).checked_sub(back),
    }
}

/// ZFS has four labels of 256 KiB, two at the start and two at the end of the last multiple of
/// 256 KiB, each with a ring of uberblocks in its second half (`include/sys/vdev_impl.h`). Any
/// uberblock of either byte order will do.
fn zfs(content: &Content<'_>) -> io::Result<Option<u64>> {
    const LABEL: u64 = 256 * KIB;
    const RING: u64 = 128 * KIB;
    const MAGIC: u64 = 0x00ba_b10c;
    let end = content.size / LABEL * LABEL;
    let labels = [Some(0), Some(LABEL), end.checked_sub(2 * LABEL), end.checked_sub(LABEL)];
    for label in labels.into_iter().flatten() {
        let ring = content.read(label + RING, RING)?;
        let found = ring.chunks_exact(KIB as usize).position(|block| {
            block.starts_with(&MAGIC.to_le_bytes()) || block.starts_with(&MAGIC.to_be_bytes())
        });
        if let Some(number) = found {
            return Ok(Some(label + RING + number as u64 * KIB));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const SIZE: u64 = 4 << 20;

    fn found(parts: &[(u64, &[u8])]) -> Vec<Hazard> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        for (at, bytes) in parts {
            file.write_all_at(bytes, *at).unwrap();
        }
        find(&Content::new(&file, SIZE, 512)).unwrap()
    }

    #[test]
    fn every_signature_of_the_table_is_found_where_it_stands() {
        for (what, worth, place, magic) in TABLE {
            let at = position(*place, SIZE).unwrap();
            let hazards = found(&[(at, magic)]);
            assert!(hazards.contains(&hazard(what, *worth, at)), "{what}: {hazards:?}");
        }
    }

    #[test]
    fn zeroes_carry_no_signature() {
        assert_eq!(found(&[]), []);
    }

    #[test]
    fn zfs_is_found_by_any_uberblock_of_any_label() {
        let magic = 0x00ba_b10c_u64.to_le_bytes();
        for at in [128 * KIB, 132 * KIB, 384 * KIB, SIZE - 384 * KIB, SIZE - 127 * KIB] {
            assert_eq!(found(&[(at, &magic)]), [hazard("a ZFS pool", Member, at)]);
        }
    }

    #[test]
    fn a_boot_sector_is_told_only_where_nothing_better_is_known() {
        let mbr: (u64, &[u8]) = (510, b"\x55\xaa");
        assert_eq!(found(&[mbr]).len(), 1);
        assert_eq!(found(&[mbr, (3, b"NTFS    ")]), [hazard("an NTFS file system", Alone, 3)]);
    }

    #[test]
    fn a_target_too_small_for_a_signature_is_not_read_beyond_its_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100).unwrap();
        assert_eq!(find(&Content::new(&file, 100, 512)).unwrap(), []);
    }
}
