//! Arrays and comparison.

use talweg_ir::{Array, DType, DataError, compare};

#[test]
fn storage_is_aligned_and_typed() {
    for dtype in DType::ALL {
        for n in [0usize, 1, 3, 100] {
            let a = Array::zeros(dtype, &[n]);
            assert_eq!(a.as_ptr() as usize % Array::ALIGN, 0);
            assert_eq!(a.bytes().len(), n * dtype.bytes());
        }
    }
    let mut a = Array::zeros(DType::F32, &[2, 2]);
    a.as_f32_mut().unwrap()[3] = 2.5;
    assert_eq!((a.get_f64(3), a.get_i64(3), a.indices(3)), (2.5, 2, vec![1, 1]));
    assert!(a.as_slice::<i32>().is_none());
    assert!(Array::zeros(DType::Bool, &[1]).as_slice::<u8>().is_some());
}

#[test]
fn values_convert_like_casts() {
    let a = Array::from_f32(DType::U8, &[3], &[300.0, -4.0, 7.9]).unwrap();
    assert_eq!(a.bytes(), [255, 0, 7]);
    let a = Array::from_i64(DType::I8, &[2], &[200, -1]).unwrap();
    assert_eq!((a.get_i64(0), a.get_i64(1)), (-56, -1));
    let a = Array::from_f32(DType::F16, &[1], &[1.0 + 1.0 / 4096.0]).unwrap();
    assert_eq!(a.get_f64(0), 1.0);
    let error = Array::from_f32(DType::F32, &[3], &[1.0]).unwrap_err();
    assert_eq!(error, DataError::Length { shape: vec![3], values: 1 });
    let error = Array::try_zeros(DType::F32, &[usize::MAX, 2]).unwrap_err();
    assert!(matches!(error, DataError::TooLarge { .. }));
}

#[test]
fn random_values_depend_on_the_seed_alone() {
    for dtype in DType::ALL {
        let a = Array::random(dtype, &[500], 1);
        assert_eq!(a, Array::random(dtype, &[500], 1));
        assert_ne!(a, Array::random(dtype, &[500], 2));
        let (lo, hi) = match dtype {
            DType::U8 => (0.0, 15.0),
            DType::Bool => (0.0, 1.0),
            d if d.is_float() => (-1.0, 1.0),
            _ => (-8.0, 8.0),
        };
        let values: Vec<f64> = (0..500).map(|at| a.get_f64(at)).collect();
        assert!(values.iter().all(|v| (lo..=hi).contains(v)), "{dtype}");
        let mean = values.iter().sum::<f64>() / 500.0;
        assert!((mean - (lo + hi) / 2.0).abs() < (hi - lo) / 10.0, "{dtype}: mean {mean}");
    }
}

#[test]
fn differences_are_relative_to_the_scale() {
    let a = |v: &[f32]| Array::from_f32(DType::F32, &[2, 2], v).unwrap();
    let e = a(&[3.0, 0.0, 4.0, 0.0]);
    assert_eq!(compare(&e, &e).at, None);
    assert!(compare(&e, &e).within(0.0));
    // rms = 2.5: the error at the zero element is relative to that, not infinite.
    let d = compare(&e, &a(&[3.0, 0.25, 4.0, 0.0]));
    assert!((d.max_rel - 0.1).abs() < 1e-12 && d.max_abs == 0.25, "{d}");
    assert_eq!((d.at.clone(), d.expected, d.got), (Some(vec![0, 1]), 0.0, 0.25));
    // Above the scale, errors are relative to the element.
    let d = compare(&e, &a(&[3.0, 0.0, 4.4, 0.0]));
    assert!((d.max_rel - 0.1).abs() < 1e-6, "{d}");
}

#[test]
fn special_values_and_integers_must_agree() {
    let a = |v: &[f32]| Array::from_f32(DType::F32, &[3], v).unwrap();
    let e = a(&[f32::NAN, f32::INFINITY, 1.0]);
    assert!(compare(&e, &e).within(0.0));
    for got in [[0.0, f32::INFINITY, 1.0], [f32::NAN, 1.0, 1.0], [f32::NAN, f32::INFINITY, f32::NAN]] {
        let d = compare(&e, &a(&got));
        assert_eq!(d.max_rel, f64::INFINITY, "{got:?}");
        assert!(d.at.is_some());
    }
    let i = |v: &[i64]| Array::from_i64(DType::I64, &[2], v).unwrap();
    let d = compare(&i(&[1 << 60, 3]), &i(&[(1 << 60) + 1, 3]));
    assert_eq!((d.max_abs, d.max_rel, d.at), (1.0, f64::INFINITY, Some(vec![0])));
    assert!(compare(&i(&[5, 3]), &i(&[5, 3])).within(0.0));
    let other = Array::zeros(DType::F32, &[2]);
    let d = compare(&i(&[0, 0]), &other);
    assert_eq!((d.max_rel, d.at), (f64::INFINITY, None));
}
