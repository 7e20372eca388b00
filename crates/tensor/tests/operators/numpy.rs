//! numpy's files.

use std::io::Cursor;

use talweg_tensor::npy::{NpyError, npz_bytes, read_npy, read_npz, write_npy};
use talweg_tensor::{ElementType, Tensor};

/// A file as numpy writes it: the header padded to a multiple of 64.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = b"\x93NUMPY\x01\x00v\x00".to_vec();
    out.extend(format!("{header:<117}\n").bytes());
    out.extend(data);
    out
}

#[test]
fn what_numpy_writes_is_read() {
    let scalar = read_npy(&file(
        "{'descr': '<f8', 'fortran_order': False, 'shape': (), }",
        b"\x00\x00\x00\x00\x00\x00\xf8?",
    ))
    .unwrap();
    assert_eq!((scalar.shape(), scalar.to_f64()), (&[][..], vec![1.5]));
    let columns = read_npy(&file(
        "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }",
        b"\x00\x00\x00\x03\x00\x01\x00\x04\x00\x02\x00\x05",
    ))
    .unwrap();
    assert_eq!((columns.shape(), columns.to_i64()), (&[2, 3][..], vec![0, 1, 2, 3, 4, 5]));
    let truths =
        read_npy(&file("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", &[1, 0])).unwrap();
    assert_eq!(truths, Tensor::from_bools([2], [true, false]));
}

#[test]
fn what_is_written_is_what_numpy_writes() {
    let tensor = Tensor::from_bools([2], [true, false]);
    let expected = file("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", &[1, 0]);
    assert_eq!(write_npy(&tensor), expected);
    let scalar = Tensor::new([], vec![1.5f64]);
    let expected =
        file("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", b"\x00\x00\x00\x00\x00\x00\xf8?");
    assert_eq!(write_npy(&scalar), expected);
}

#[test]
fn every_type_makes_the_round_trip() {
    for element in ElementType::ALL {
        let tensor = Tensor::from_f64(element, [2, 1, 2], [0.0, 1.0, 1.0, 0.0]);
        assert_eq!(read_npy(&write_npy(&tensor)).unwrap(), tensor);
    }
}

#[test]
fn archives_make_the_round_trip() {
    let (x, y) = (Tensor::new([2], vec![1i64, -1]), Tensor::new([0, 3], Vec::<f32>::new()));
    let bytes = npz_bytes([("x", &x), ("deep/y", &y)]).unwrap();
    let read = read_npz(Cursor::new(bytes)).unwrap();
    assert_eq!(read, [("x".to_string(), x), ("deep/y".to_string(), y)]);
}

/// `np.savez_compressed` of `x = zeros(100, float32)` and `y = array([1, 2])`.
const COMPRESSED: [u8; 383] = [
    80, 75, 3, 4, 45, 0, 0, 0, 8, 0, 0, 0, 33, 0, 239, 185, 125, 27, 255, 255, 255, 255, 255, 255, 255, 255,
    5, 0, 20, 0, 120, 46, 110, 112, 121, 1, 0, 16, 0, 16, 2, 0, 0, 0, 0, 0, 0, 75, 0, 0, 0, 0, 0, 0, 0, 155,
    236, 23, 234, 27, 16, 201, 200, 80, 198, 80, 173, 158, 146, 90, 156, 92, 164, 110, 165, 160, 110, 147,
    102, 162, 174, 163, 160, 158, 150, 95, 84, 82, 148, 152, 23, 159, 95, 148, 146, 10, 18, 119, 75, 204, 41,
    78, 5, 138, 23, 103, 36, 22, 164, 2, 249, 26, 134, 6, 6, 58, 154, 58, 10, 181, 10, 100, 3, 46, 134, 81,
    48, 168, 0, 0, 80, 75, 3, 4, 45, 0, 0, 0, 8, 0, 0, 0, 33, 0, 12, 252, 28, 233, 255, 255, 255, 255, 255,
    255, 255, 255, 5, 0, 20, 0, 121, 46, 110, 112, 121, 1, 0, 16, 0, 144, 0, 0, 0, 0, 0, 0, 0, 74, 0, 0, 0,
    0, 0, 0, 0, 155, 236, 23, 234, 27, 16, 201, 200, 80, 198, 80, 173, 158, 146, 90, 156, 92, 164, 110, 165,
    160, 110, 147, 105, 161, 174, 163, 160, 158, 150, 95, 84, 82, 148, 152, 23, 159, 95, 148, 146, 10, 18,
    119, 75, 204, 41, 78, 5, 138, 23, 103, 36, 22, 164, 2, 249, 26, 70, 58, 154, 58, 10, 181, 10, 20, 0, 46,
    70, 6, 8, 96, 130, 210, 0, 80, 75, 1, 2, 45, 3, 45, 0, 0, 0, 8, 0, 0, 0, 33, 0, 239, 185, 125, 27, 75, 0,
    0, 0, 16, 2, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128, 1, 0, 0, 0, 0, 120, 46, 110, 112, 121, 80,
    75, 1, 2, 45, 3, 45, 0, 0, 0, 8, 0, 0, 0, 33, 0, 12, 252, 28, 233, 74, 0, 0, 0, 144, 0, 0, 0, 5, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 128, 1, 130, 0, 0, 0, 121, 46, 110, 112, 121, 80, 75, 5, 6, 0, 0, 0, 0, 2, 0, 2,
    0, 102, 0, 0, 0, 3, 1, 0, 0, 0, 0,
];

#[test]
fn compressed_archives_are_read() {
    let read = read_npz(Cursor::new(&COMPRESSED[..])).unwrap();
    assert_eq!(read[0], ("x".to_string(), Tensor::new([100], vec![0.0f32; 100])));
    assert_eq!(read[1], ("y".to_string(), Tensor::new([2], vec![1i64, 2])));
}

#[test]
fn damaged_files_are_errors() {
    assert!(matches!(read_npy(b"PK"), Err(NpyError::NotNpy)));
    assert!(matches!(read_npy(b"\x93NUMPY\x01"), Err(NpyError::Truncated { .. })));
    assert!(matches!(read_npy(b"\x93NUMPY\x01\x00\xff\xff{"), Err(NpyError::Truncated { .. })));
    let header = |descr: &str, shape: &str| {
        read_npy(&file(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"), &[0; 8]))
    };
    assert!(matches!(header("'<f4'", "(3,)"), Err(NpyError::Truncated { wanted: 12, found: 8 })));
    assert!(matches!(header("'<c8'", "(1,)"), Err(NpyError::Type(name)) if name == "<c8"));
    assert!(matches!(header("[('a', '<f4')]", "(1,)"), Err(NpyError::Type(_))));
    assert!(matches!(header("'<f4'", "(-1,)"), Err(NpyError::Header(_))));
    assert!(matches!(header("'<f4'", "(18446744073709551615, 0, 4)"), Err(NpyError::Tensor(_))));
    assert!(matches!(read_npz(Cursor::new(b"nothing")), Err(NpyError::Archive(_))));
}
