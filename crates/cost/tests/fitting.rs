//! What boosting learns, and that it is reproducible.

mod support;

use proptest::prelude::*;
use support::{labels, uniform};
use talweg_cost::metrics::{pair_accuracy, rmse};
use talweg_cost::{CostError, Matrix, PairwiseRank, Params, Squares, SummedSquares, Trees, one_row_each};

fn fit_squares(data: &Matrix, labels: &[f32], params: &Params) -> Trees {
    Trees::fit(data, &one_row_each(data.rows()), labels, &Squares, params, None, None).unwrap()
}

fn error(trees: &Trees, data: &Matrix, labels: &[f32]) -> f64 {
    rmse(labels, &trees.predict_rows(data).unwrap()).unwrap().unwrap()
}

#[test]
fn a_noiseless_function_is_fitted() {
    let data = uniform(2000, 5, 1);
    let target = |x: &[f32]| x[0] * x[1] + (4.0 * x[2]).sin() + f32::from(u8::from(x[3] > 0.7));
    let y = labels(&data, target);
    let trees = fit_squares(&data, &y, &Params { rounds: 200, ..Params::default() });
    assert!(error(&trees, &data, &y) < 0.02);
    let unseen = uniform(500, 5, 2);
    assert!(error(&trees, &unseen, &labels(&unseen, target)) < 0.08);
    let importance = trees.importance();
    assert!(importance[4] < 0.02 * importance.iter().sum::<f64>(), "{importance:?}");
    assert!(importance[..4].iter().all(|&gain| gain > importance[4]));
}

#[test]
fn an_interaction_needs_depth_two() {
    let data = uniform(1000, 2, 3);
    let y = labels(&data, |x| f32::from(u8::from((x[0] > 0.45) != (x[1] > 0.55))));
    let shallow = fit_squares(&data, &y, &Params { max_depth: 1, ..Params::default() });
    let deep = fit_squares(&data, &y, &Params { max_depth: 2, ..Params::default() });
    assert!(shallow.trees().iter().all(|tree| tree.depth() <= 1));
    assert!(error(&shallow, &data, &y) > 0.4);
    assert!(error(&deep, &data, &y) < 0.1);
}

#[test]
fn depth_and_child_weight_limit_trees() {
    let data = uniform(500, 3, 4);
    let y = labels(&data, |x| x[0] + x[1] * x[2]);
    for max_depth in [1, 3, 7] {
        let trees = fit_squares(&data, &y, &Params { max_depth, min_child_weight: 0.0, ..Params::default() });
        assert_eq!(trees.trees().iter().map(|tree| tree.depth()).max(), Some(max_depth));
    }
    let trees = fit_squares(&data, &y, &Params { min_child_weight: 300.0, ..Params::default() });
    assert!(trees.trees().iter().all(|tree| tree.len() == 1));
    let trees = fit_squares(&data, &y, &Params { gamma: 1e6, ..Params::default() });
    assert!(trees.trees().iter().all(|tree| tree.len() == 1));
}

#[test]
fn programs_are_sums_of_their_rows() {
    let rows = 3000;
    let data = uniform(rows, 3, 5);
    let offsets: Vec<usize> = (0..=rows).step_by(3).collect();
    let y: Vec<f32> = (0..rows / 3)
        .map(|program| (0..3).map(|row| data.row(3 * program + row)[0].powi(2)).sum::<f32>() / 3.0)
        .collect();
    let params = Params { rounds: 200, min_child_weight: 0.0, ..Params::default() };
    let trees = Trees::fit(&data, &offsets, &y, &SummedSquares::default(), &params, None, None).unwrap();
    let scores = trees.predict_programs(&data, &offsets, None).unwrap();
    assert!(rmse(&y, &scores).unwrap().unwrap() < 0.03);
    assert!(pair_accuracy(&y, &scores, &[]).unwrap().unwrap() > 0.95);
}

#[test]
fn programs_of_many_rows_do_not_overshoot() {
    let data = uniform(2000, 2, 6);
    let offsets: Vec<usize> = (0..=2000).step_by(50).collect();
    let y = vec![0.5; 40];
    let params = Params { eta: 1.0, rounds: 30, ..Params::default() };
    let trees = Trees::fit(&data, &offsets, &y, &Squares, &params, None, None).unwrap();
    let scores = trees.predict_programs(&data, &offsets, None).unwrap();
    assert!(scores.iter().all(|score| (score - 0.5).abs() < 0.1), "{scores:?}");
}

#[test]
fn the_weighted_loss_prefers_top_labels() {
    // One binary feature cannot tell 0.1 from 1.0 within its halves: a loss must choose.
    let data = Matrix::new(200, 1, (0..200).map(|row| (row % 2) as f32).collect()).unwrap();
    let y: Vec<f32> = (0..200).map(|row| if row % 4 == 0 { 1.0 } else { 0.1 }).collect();
    let params = Params { lambda: 0.0, ..Params::ansor() };
    let offsets = one_row_each(200);
    let plain = fit_squares(&data, &y, &params).predict_rows(&data).unwrap();
    let weighted = Trees::fit(&data, &offsets, &y, &SummedSquares::default(), &params, None, None).unwrap();
    let weighted = weighted.predict_rows(&data).unwrap();
    assert!((plain[0] - 0.55).abs() < 0.01, "{}", plain[0]);
    assert!((weighted[0] - (1.0 + 0.01) / 1.1).abs() < 0.01, "{}", weighted[0]);
}

#[test]
fn rank_loss_orders_unseen_programs() {
    let target = |x: &[f32]| x[0] * 3.0 - x[1] * x[2];
    let (data, unseen) = (uniform(600, 4, 7), uniform(300, 4, 8));
    let y = labels(&data, target);
    let tasks: Vec<u32> = (0..600).map(|row| row % 3).collect();
    // Scales that differ by task cannot disturb a ranking.
    let scaled: Vec<f32> = y.iter().zip(&tasks).map(|(y, &task)| y * 10f32.powi(task as i32)).collect();
    let rank = PairwiseRank::new(tasks);
    let trees =
        Trees::fit(&data, &one_row_each(600), &scaled, &rank, &Params::autotvm(), None, None).unwrap();
    let scores = trees.predict_rows(&unseen).unwrap();
    let accuracy = pair_accuracy(&labels(&unseen, target), &scores, &[]).unwrap().unwrap();
    assert!(accuracy > 0.9, "{accuracy}");
}

#[test]
fn rank_loss_sees_only_the_order() {
    let data = uniform(400, 3, 9);
    let y = labels(&data, |x| x[0] - x[1]);
    let warped: Vec<f32> = y.iter().map(|y| (3.0 * y).exp()).collect();
    let rank = PairwiseRank::new(Vec::new());
    let fit =
        |y: &[f32]| Trees::fit(&data, &one_row_each(400), y, &rank, &Params::autotvm(), None, None).unwrap();
    assert_eq!(fit(&y), fit(&warped));
}

#[test]
fn a_margin_is_added_exactly() {
    let data = uniform(300, 3, 10);
    let offsets: Vec<usize> = (0..=300).step_by(2).collect();
    let margin: Vec<f32> = (0..150).map(|program| (program as f32 * 0.1).cos()).collect();
    let y: Vec<f32> = (0..150).map(|program| margin[program] + data.row(2 * program)[0]).collect();
    let fit = |margin| Trees::fit(&data, &offsets, &y, &Squares, &Params::default(), margin, None).unwrap();
    let trees = fit(Some(&margin[..]));
    let with = trees.predict_programs(&data, &offsets, Some(&margin)).unwrap();
    let without = trees.predict_programs(&data, &offsets, None).unwrap();
    for program in 0..150 {
        assert_eq!(with[program], margin[program] + without[program]);
    }
    assert!(rmse(&y, &with).unwrap().unwrap() < 0.05);
    assert_ne!(trees, fit(None));
    // With the answer as margin there is nothing left to learn.
    let trees = Trees::fit(&data, &offsets, &y, &Squares, &Params::default(), Some(&y), None).unwrap();
    assert_eq!(trees.predict_programs(&data, &offsets, Some(&y)).unwrap(), y);
}

#[test]
fn a_warm_start_continues_where_a_fit_ended() {
    let data = uniform(400, 5, 11);
    let y = labels(&data, |x| x[0] * x[1] + x[2]);
    let offsets = one_row_each(400);
    let margin = labels(&data, |x| x[4]);
    let params = |rounds| Params { rounds, subsample: 0.7, colsample: 0.6, seed: 5, ..Params::default() };
    let fit = |rounds, warm: Option<&Trees>| {
        Trees::fit(&data, &offsets, &y, &Squares, &params(rounds), Some(&margin), warm).unwrap()
    };
    let half = fit(10, None);
    let continued = fit(15, Some(&half));
    assert_eq!(continued.trees()[..10], half.trees()[..]);
    assert_eq!(continued, fit(25, None));
}

#[test]
fn a_seed_names_one_model_for_any_number_of_threads() {
    let data = uniform(4000, 70, 12);
    let y = labels(&data, |x| x[0] * x[1] + x[2].sqrt());
    let params = |seed, threads| {
        let sampled = Params { rounds: 5, subsample: 0.8, colsample: 0.5, ..Params::default() };
        Params { seed, threads, ..sampled }
    };
    let one = fit_squares(&data, &y, &params(1, 1));
    assert_eq!(one, fit_squares(&data, &y, &params(1, 1)));
    assert_eq!(one, fit_squares(&data, &y, &params(1, 3)));
    assert_ne!(one, fit_squares(&data, &y, &params(2, 1)));
}

#[test]
fn early_stopping_keeps_the_best_prefix() {
    let data = uniform(200, 20, 13);
    let mut stream = talweg_cost::random::Stream::new(1, 2);
    let y = labels(&data, |x| x[0]).iter().map(|y| y + stream.unit() - 0.5).collect::<Vec<f32>>();
    let params = |early_stopping| {
        let base = Params { rounds: 200, min_child_weight: 0.0, holdout: 0.3, ..Params::default() };
        fit_squares(&data, &y, &Params { early_stopping, ..base })
    };
    let (hasty, patient) = (params(5), params(1000));
    let (few, some) = (hasty.trees().len(), patient.trees().len());
    assert!(few > 0 && few <= some && some < 200, "{few} {some}");
    assert_eq!(patient.trees()[..few], hasty.trees()[..]);
    assert_eq!(params(0).trees().len(), 200);
}

#[test]
fn infinite_and_missing_features_are_values() {
    let mut data = Matrix::with_cols(2);
    for row in 0..200 {
        let special = [f32::NAN, f32::NEG_INFINITY, 1.0, f32::INFINITY][row % 4];
        data.push_row(&[special, f32::NAN]).unwrap();
    }
    let y: Vec<f32> = (0..200).map(|row| [0.0, 0.0, 1.0, 2.0][row % 4]).collect();
    let trees = fit_squares(&data, &y, &Params { lambda: 0.0, ..Params::default() });
    assert!(error(&trees, &data, &y) < 1e-3);
    let below = Matrix::new(1, 2, vec![-1e30, 0.0]).unwrap();
    assert!(trees.predict_rows(&below).unwrap()[0].abs() < 1e-3);
}

#[test]
fn constant_features_leave_one_leaf() {
    let data = Matrix::new(50, 3, vec![4.0; 150]).unwrap();
    let y: Vec<f32> = (0..50).map(|row| row as f32 / 49.0).collect();
    let trees = fit_squares(&data, &y, &Params { colsample: 0.5, ..Params::default() });
    assert!(trees.trees().iter().all(|tree| tree.len() == 1));
    let mean = trees.predict_rows(&data).unwrap()[0];
    assert!((mean - 0.5).abs() < 1e-3, "{mean}");
}

#[test]
fn bad_input_is_refused_with_a_reason() {
    let data = uniform(10, 2, 15);
    let offsets = one_row_each(10);
    let y = vec![0.5; 10];
    let fit = |data: &Matrix, offsets: &[usize], y: &[f32], margin: Option<&[f32]>| {
        Trees::fit(data, offsets, y, &Squares, &Params::default(), margin, None).unwrap_err()
    };
    let empty = Matrix::with_cols(2);
    assert_eq!(fit(&empty, &[0], &[], None), CostError::Empty { what: "rows" });
    let flat = Matrix::new(10, 0, vec![]).unwrap();
    assert_eq!(fit(&flat, &offsets, &y, None), CostError::Empty { what: "feature columns" });
    assert!(matches!(fit(&data, &[0, 3], &y[..1], None), CostError::Offsets { .. }));
    assert!(matches!(fit(&data, &offsets, &y[..9], None), CostError::Shape { what: "labels", .. }));
    assert!(matches!(fit(&data, &offsets, &y, Some(&[1.0])), CostError::Shape { what: "base margin", .. }));
    let mut nan = y.clone();
    nan[3] = f32::NAN;
    assert!(matches!(fit(&data, &offsets, &nan, None), CostError::Value { index: 3, .. }));
    assert!(matches!(fit(&data, &offsets, &y, Some(&nan)), CostError::Value { what: "base margin", .. }));
    let trees = fit_squares(&data, &y, &Params::default());
    let wide = uniform(10, 3, 16);
    assert_eq!(trees.predict_rows(&wide), Err(CostError::Columns { model: 2, data: 3 }));
    let warm = Trees::fit(&wide, &offsets, &y, &Squares, &Params::default(), None, Some(&trees));
    assert_eq!(warm, Err(CostError::Columns { model: 2, data: 3 }));
    let text = fit(&data, &offsets, &nan, None).to_string();
    assert!(text.contains("labels[3]") && text.contains("finite"), "{text}");
}

#[test]
fn programs_without_rows_score_their_margin() {
    let data = uniform(20, 2, 17);
    let offsets = [0, 0, 10, 10, 20];
    let trees =
        Trees::fit(&data, &offsets, &[0.3, 1.0, 0.2, 2.0], &Squares, &Params::default(), None, None).unwrap();
    let scores = trees.predict_programs(&data, &offsets, Some(&[7.0, 0.0, 8.0, 0.0])).unwrap();
    assert_eq!((scores[0], scores[2]), (7.0, 8.0));
    assert!(trees.predict_programs(&data, &offsets, Some(&[7.0])).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn fast_prediction_equals_walking(
        rows in 1usize..300,
        cols in 1usize..12,
        max_depth in 1usize..9,
        seed in any::<u64>(),
        holes in prop::collection::vec((any::<prop::sample::Index>(), 0usize..3), 0..20),
    ) {
        let clean = uniform(rows, cols, seed);
        let mut values = clean.data().to_vec();
        for (at, kind) in holes {
            let at = at.index(values.len());
            values[at] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][kind];
        }
        let data = Matrix::new(rows, cols, values).unwrap();
        let y = labels(&clean, |x| x.iter().sum());
        let params = Params { rounds: 7, max_depth, min_child_weight: 0.0, seed, ..Params::default() };
        let trees = fit_squares(&data, &y, &params);
        let fast = trees.predict_rows(&data).unwrap();
        for (row, fast) in fast.iter().enumerate() {
            let walked = trees.trees().iter().fold(0.0, |sum, tree| sum + tree.predict(data.row(row)));
            prop_assert_eq!(walked.to_bits(), fast.to_bits());
        }
    }

    #[test]
    fn storing_changes_nothing(rows in 2usize..100, cols in 1usize..6, seed in any::<u64>()) {
        let data = uniform(rows, cols, seed);
        let y = labels(&data, |x| x[0] / 3.0);
        let trees = fit_squares(&data, &y, &Params { rounds: 5, ..Params::default() });
        let read = Trees::from_json(&trees.to_json().unwrap()).unwrap();
        prop_assert_eq!(&read, &trees);
        prop_assert_eq!(read.predict_rows(&data).unwrap(), trees.predict_rows(&data).unwrap());
    }
}

#[test]
fn damaged_models_are_refused() {
    let data = uniform(50, 2, 18);
    let y = labels(&data, |x| x[0]);
    let text = fit_squares(&data, &y, &Params { rounds: 1, ..Params::default() }).to_json().unwrap();
    assert!(Trees::from_json(&text).is_ok());
    for (from, to) in
        [("\"cols\":2", "\"cols\":0"), ("\"left\":[1,", "\"left\":[60000,"), ("\"value\":[", "\"value\":[1,")]
    {
        let damaged = text.replace(from, to);
        assert_ne!(damaged, text, "{from}");
        let error = Trees::from_json(&damaged).unwrap_err().to_string();
        assert!(error.contains("tree 0"), "{error}");
    }
    assert!(matches!(Trees::from_json("{"), Err(CostError::Text { .. })));
}
