//! The logic: an order book that matches by price, then by time.

use std::collections::{BTreeMap, VecDeque};

/// An order to buy or sell at a price or better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) buys: bool,
    pub(crate) price: u32,
    pub(crate) quantity: u32,
}

/// Part of an order that found its counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trade {
    pub(crate) maker: u64,
    pub(crate) taker: u64,
    pub(crate) price: u32,
    pub(crate) quantity: u32,
}

/// Orders that wait, each side by price.
#[derive(Debug, Default)]
pub(crate) struct Book {
    bids: BTreeMap<u32, VecDeque<Order>>,
    asks: BTreeMap<u32, VecDeque<Order>>,
}

impl Book {
    /// Matches an order with those that wait; what remains waits.
    pub(crate) fn add(&mut self, mut order: Order, trades: &mut Vec<Trade>) {
        while order.quantity > 0 {
            let best = if order.buys { self.asks.first_entry() } else { self.bids.last_entry() };
            let Some(mut level) = best else { break };
            let crosses = if order.buys { *level.key() <= order.price } else { *level.key() >= order.price };
            if !crosses {
                break;
            }
            match_level(&mut order, level.get_mut(), trades);
            if level.get().is_empty() {
                level.remove();
            }
        }
        if order.quantity > 0 {
            let side = if order.buys { &mut self.bids } else { &mut self.asks };
            side.entry(order.price).or_default().push_back(order);
        }
    }

    /// Every waiting order, looked at one by one: how not to find something.
    pub(crate) fn exposure_by_scan(&self) -> u64 {
        let orders = self.bids.values().chain(self.asks.values()).flatten();
        orders.map(|order| u64::from(order.quantity) * u64::from(order.price)).sum()
    }
}

fn match_level(order: &mut Order, level: &mut VecDeque<Order>, trades: &mut Vec<Trade>) {
    while order.quantity > 0 {
        let Some(maker) = level.front_mut() else { return };
        let quantity = order.quantity.min(maker.quantity);
        trades.push(Trade { maker: maker.id, taker: order.id, price: maker.price, quantity });
        order.quantity -= quantity;
        maker.quantity -= quantity;
        if maker.quantity == 0 {
            level.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(id: u64, buys: bool, price: u32, quantity: u32) -> Order {
        Order { id, buys, price, quantity }
    }

    #[test]
    fn the_best_price_comes_first_and_then_the_oldest_order() {
        let (mut book, mut trades) = (Book::default(), Vec::new());
        for waiting in [order(1, false, 102, 5), order(2, false, 101, 5), order(3, false, 101, 5)] {
            book.add(waiting, &mut trades);
        }
        assert!(trades.is_empty());
        book.add(order(4, true, 102, 12), &mut trades);
        let seen: Vec<_> = trades.iter().map(|trade| (trade.maker, trade.taker, trade.price, trade.quantity)).collect();
        assert_eq!(seen, [(2, 4, 101, 5), (3, 4, 101, 5), (1, 4, 102, 2)]);
        assert_eq!(book.exposure_by_scan(), 3 * 102);
    }

    #[test]
    fn what_finds_no_counterpart_waits() {
        let (mut book, mut trades) = (Book::default(), Vec::new());
        book.add(order(1, true, 99, 5), &mut trades);
        book.add(order(2, false, 100, 5), &mut trades);
        assert_eq!((trades.len(), book.exposure_by_scan()), (0, 5 * 99 + 5 * 100));
        book.add(order(3, false, 99, 7), &mut trades);
        assert_eq!((trades.len(), trades[0].quantity), (1, 5));
        assert_eq!(book.exposure_by_scan(), 5 * 100 + 2 * 99);
    }
}
