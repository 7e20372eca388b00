//! Which values a knob may take. Tiles need not divide what they tile: 7x7 images and 50 tokens have no useful divisors.

/// Up to this extent every size is a candidate.
const ALL_UP_TO: i64 = 64;
/// Unrolled iterations of a reduction, at most.
pub const MAX_UNROLL: i64 = 8;

/// Sizes of one level of a tiled loop: every integer up to 64; beyond, the smallest size for each number of tiles
/// (which includes the divisors) and powers of two.
pub fn tile_sizes(extent: i64) -> Vec<i64> {
    let extent = extent.max(1);
    let mut out: Vec<i64> = (1..=extent.min(ALL_UP_TO)).collect();
    let mut tiles = 1;
    while (extent + tiles - 1) / tiles > ALL_UP_TO {
        out.push((extent + tiles - 1) / tiles);
        tiles += 1;
    }
    let mut power = ALL_UP_TO * 2;
    while power < extent {
        out.push(power);
        power *= 2;
    }
    sorted(out)
}

/// Rows of a register tile.
pub fn register_rows(extent: i64, most: i64) -> Vec<i64> {
    (1..=extent.min(most).max(1)).collect()
}

/// Elements of a loop that runs as vectors: whole vectors, up to `most` of them and to what the extent needs.
pub fn vector_sizes(extent: i64, lanes: i64, most: i64) -> Vec<i64> {
    let needed = (extent.max(1) + lanes - 1) / lanes;
    (1..=needed.min(most).max(1)).map(|v| v * lanes).collect()
}

/// Like [`vector_sizes`], in steps that grow with the number of vectors: for streams without register tiles.
pub fn stream_sizes(extent: i64, lanes: i64, most: i64) -> Vec<i64> {
    let needed = (extent.max(1) + lanes - 1) / lanes;
    let mut out: Vec<i64> =
        [1, 2, 3, 4, 6, 8, 12, 16, 24, 32].into_iter().filter(|v| *v <= needed.min(most)).collect();
    if needed <= most {
        out.push(needed);
    }
    sorted(out.into_iter().map(|v| v * lanes).collect())
}

/// Divisors up to a limit, so that unrolled bodies have no tail.
pub fn divisors(extent: i64, most: i64) -> Vec<i64> {
    (1..=extent.min(most).max(1)).filter(|d| extent.max(1) % d == 0).collect()
}

fn sorted(mut values: Vec<i64>) -> Vec<i64> {
    values.sort_unstable();
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_contain_divisors_and_tails() {
        assert_eq!(tile_sizes(7), [1, 2, 3, 4, 5, 6, 7]);
        let sizes = tile_sizes(1000);
        for d in (1..=1000).filter(|d| 1000 % d == 0) {
            assert!(sizes.contains(&d), "{d}");
        }
        assert!(sizes.contains(&334) && sizes.contains(&128) && sizes.len() < 100);
        assert_eq!(vector_sizes(10, 16, 4), [16]);
        assert_eq!(vector_sizes(40, 16, 4), [16, 32, 48]);
        assert_eq!(stream_sizes(1000, 16, 16).last(), Some(&256));
        assert_eq!(divisors(12, 8), [1, 2, 3, 4, 6]);
    }
}
