// Package passes is the money of depots. It tells nobody who spends it: a pass is signed
// without being seen, spent without being shown, and refused the second time. It promises
// nothing to outsiders.
//
// # The idea
//
// A pass is the right to keep 1, 64 or 4,096 MiB at one depot for 31 days. A wallet that
// wants passes draws random numbers and sends them blinded; the issuer signs what it cannot
// read; unblinded, they are passes that nobody can tell from those of others.
//
//	wallet                              issuer
//	Prepare: seed ─▶ nonces, blinds
//	         Request ─────────────────▶ Sign: each element × key, one proof
//	Finish  ◀───────────────────────── Response
//	Pass, Pass, ...
//
//	wallet                              depot                        issuer
//	Spend = nonce, key, HMAC ─────────▶ ─────────────────────────▶ Check, Log.Spend
//	                         ◀───────── lease, once ◀────────────── "yes"
//
// It is RFC 9497's verifiable oblivious PRF over ristretto255 (package circl has it),
// in the messages of RFC 9577, with token type 5 of the batched tokens that are to extend RFC 9578.
//
// # What a spend gives away
//
// What is sent is a Spend: a nonce, and a code made with the pass for one request at one
// depot (Binding). The pass itself never leaves the wallet. So a depot that takes a Spend
// and gives nothing has gained nothing: the Spend is good for that request only.
//
// # What the issuer cannot see
//
// Between Request and Spend stands the blind, which only the wallet knows: for every request
// there is a blind that leads from it to any given pass. Whatever else could link the two is
// the same for all: an issuer has one key for each size of pass and half year, a Listing that
// shows everybody the same keys, and a proof that it signed with the listed key. A wallet
// buys passes under the keys that it sees as a stranger, and spends only those whose keys it
// sees as an account, at another time.
//
// # What must be durable
//
// A Wallet and a Book (the issuer's) return what must be written before anything that follows
// from it is sent. After a crash at any point, an order asks for the same passes again, a
// request pays with the passes that are reserved for it, and the issuer repeats its earlier
// answer. So no pass is lost, and none pays twice.
//
//	key.go     sizes, epochs, keys, and their listing
//	issue.go   Prepare, Sign, Finish: signing what is not seen
//	order.go   vouchers, and orders of passes of several sizes
//	spend.go   passes, and what is shown of them
//	wallet.go  Wallet: which pass pays what
//	book.go    Book: what an issuer never forgets
//
// # Clocks and randomness
//
// Nothing here reads a clock. Prepare makes nonces and blinds from a seed, so that the same
// seed makes the same request after a crash. Sign takes chance for the proof, and never
// returns the same bytes twice.
package passes
