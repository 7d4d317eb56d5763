//! A small deflater: for a plan and its parent trees, setting up the usual one takes longer than compressing.
//!
//! It writes what `zlib` writes at its lowest level, one block with fixed Huffman codes, and remembers the last
//! positions of a few thousand prefixes. Any inflater can decode the result.
//!
//! Using `zlib_rs::compress_slice` at level 1 instead costs `ralph task done` 0.6 to 0.9 ms more (of 6.5 ms, compared
//! with 19 ms of `git commit`): 0.03 of a ratio that `cargo xtask bench plan` limits to 0.25 and that is 0.23 or more.

/// The minimum length of a match: shorter ones save nothing.
const SHORTEST: usize = 4;
const LONGEST: usize = 258;
const WINDOW: usize = 32 << 10;
const HASH_BITS: u32 = 12;

/// The codes for lengths from 257 on: the base length, and the number of extra bits.
const LENGTHS: [(u16, u8); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];

/// The codes for distances.
const DISTANCES: [(u16, u8); 30] = [
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (5, 1),
    (7, 1),
    (9, 2),
    (13, 2),
    (17, 3),
    (25, 3),
    (33, 4),
    (49, 4),
    (65, 5),
    (97, 5),
    (129, 6),
    (193, 6),
    (257, 7),
    (385, 7),
    (513, 8),
    (769, 8),
    (1025, 9),
    (1537, 9),
    (2049, 10),
    (3073, 10),
    (4097, 11),
    (6145, 11),
    (8193, 12),
    (12289, 12),
    (16385, 13),
    (24577, 13),
];

/// Deflates, with the frame of a loose object.
pub(super) fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = Bits { bytes: Vec::with_capacity(bytes.len() / 3 + 64), held: 0, count: 0 };
    out.bytes.extend([0x78, 0x01]);
    // The last block, with fixed codes.
    out.put(0b011, 3);
    let mut seen = [0_u32; 1 << HASH_BITS];
    let mut at = 0;
    while at < bytes.len() {
        let found = bytes.get(at..at + SHORTEST).and_then(|start| {
            let slot = &mut seen[slot(start)];
            // One-based: zero means nowhere.
            let before = usize::try_from(*slot).ok()?.checked_sub(1);
            *slot = u32::try_from(at + 1).unwrap_or(0);
            let before = before.filter(|before| at - before <= WINDOW)?;
            let len = common(&bytes[before..], &bytes[at..]);
            (len >= SHORTEST).then_some((len, at - before))
        });
        if let Some((len, distance)) = found {
            out.put_match(len, distance);
            at += len;
        } else {
            out.put_symbol(u16::from(bytes[at]));
            at += 1;
        }
    }
    out.put_symbol(256);
    let mut out = out.finish();
    out.extend(adler32(bytes).to_be_bytes());
    out
}

fn slot(start: &[u8]) -> usize {
    let word = u32::from_le_bytes(start.try_into().expect("these are four bytes"));
    (word.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
}

/// Returns the length of the common prefix, comparing eight bytes at a time.
fn common(before: &[u8], now: &[u8]) -> usize {
    let most = now.len().min(LONGEST);
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("these are eight bytes"));
    let mut same = 0;
    while same + 8 <= most {
        let differs = word(&before[same..same + 8]) ^ word(&now[same..same + 8]);
        if differs != 0 {
            return same + (differs.trailing_zeros() / 8) as usize;
        }
        same += 8;
    }
    same + before[same..].iter().zip(&now[same..most]).take_while(|(a, b)| a == b).count()
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    // The maximum number of bytes that can be summed without overflow.
    const STEP: usize = 5552;
    let (mut low, mut high) = (1_u32, 0_u32);
    for chunk in bytes.chunks(STEP) {
        for byte in chunk {
            low += u32::from(*byte);
            high += low;
        }
        (low, high) = (low % MODULUS, high % MODULUS);
    }
    high << 16 | low
}

/// A bit writer, lowest bit of each byte first.
struct Bits {
    bytes: Vec<u8>,
    held: u64,
    count: u32,
}

impl Bits {
    fn put(&mut self, bits: u32, count: u32) {
        self.held |= u64::from(bits) << self.count;
        self.count += count;
        if self.count >= 32 {
            #[expect(clippy::cast_possible_truncation, reason = "the rest is kept")]
            self.bytes.extend_from_slice(&(self.held as u32).to_le_bytes());
            self.held >>= 32;
            self.count -= 32;
        }
    }

    /// Writes a byte, the end marker, or a length code, with the fixed codes.
    fn put_symbol(&mut self, symbol: u16) {
        let (code, len) = match symbol {
            0..=143 => (0x30 + symbol, 8),
            144..=255 => (0x190 + symbol - 144, 9),
            256..=279 => (symbol - 256, 7),
            _ => (0xc0 + symbol - 280, 8),
        };
        // Codes are written with their highest bit first, everything else with its lowest.
        self.put(u32::from(code.reverse_bits() >> (16 - len)), len);
    }

    fn put_match(&mut self, len: usize, distance: usize) {
        let (number, first, more) = code_of(&LENGTHS, len);
        self.put_symbol(257 + number);
        self.put(rest(len, first), more);
        let (number, first, more) = code_of(&DISTANCES, distance);
        self.put(u32::from(number.reverse_bits() >> 11), 5);
        self.put(rest(distance, first), more);
    }

    fn finish(mut self) -> Vec<u8> {
        let bytes = self.held.to_le_bytes();
        self.bytes.extend_from_slice(&bytes[..self.count.div_ceil(8) as usize]);
        self.bytes
    }
}

/// Finds the code of a value: its number, its base, the number of extra bits.
fn code_of(codes: &[(u16, u8)], value: usize) -> (u16, u16, u32) {
    let number = codes.partition_point(|(first, _)| usize::from(*first) <= value) - 1;
    let (first, more) = codes[number];
    (u16::try_from(number).expect("there are few codes"), first, u32::from(more))
}

fn rest(value: usize, first: u16) -> u32 {
    u32::try_from(value - usize::from(first)).expect("values are below the window's size")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn inflated(deflated: &[u8], len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        let mut inflate = zlib_rs::Inflate::new(true, 15);
        let ended = inflate.decompress(deflated, &mut out, zlib_rs::InflateFlush::Finish);
        assert_eq!(ended.unwrap(), zlib_rs::Status::StreamEnd);
        assert_eq!(inflate.total_in(), deflated.len() as u64);
        assert_eq!(inflate.total_out(), len as u64);
        out
    }

    #[test]
    fn text_that_repeats_itself_gets_a_fraction_of_its_size() {
        let line = |task: u32| {
            format!(
                "{{\"t\": \"task\", \"id\": \"t-{task:06x}\", \"s\": \"p\", \"name\": \"Do {task}\"}}\n"
            )
        };
        let plan = (0..1000).map(line).collect::<Vec<String>>().concat();
        let deflated = deflate(plan.as_bytes());
        assert!(deflated.len() * 3 < plan.len(), "{} of {}", deflated.len(), plan.len());
        assert_eq!(inflated(&deflated, plan.len()), plan.as_bytes());
    }

    #[test]
    fn every_length_and_distance_has_its_code() {
        for distance in [1, 2, 4, 5, 6, 255, 256, 257, 4096, 24_577, 32_767, 32_768] {
            for len in [4, 5, 10, 11, 12, 114, 115, 257, 258, 259, 300] {
                let noise = |number: usize| number.wrapping_mul(0x9e37_79b1).to_le_bytes()[2];
                let mut bytes: Vec<u8> = (0..distance).map(noise).collect();
                for at in 0..len {
                    bytes.push(bytes[at]);
                }
                assert_eq!(inflated(&deflate(&bytes), bytes.len()), bytes, "{distance} {len}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_deflated_is_inflated_to_the_same(
            parts in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), 1_usize..50), 0..40),
        ) {
            let bytes: Vec<u8> =
                parts.iter().flat_map(|(part, times)| part.repeat(*times)).collect();
            prop_assert_eq!(inflated(&deflate(&bytes), bytes.len()), bytes);
        }
    }
}
