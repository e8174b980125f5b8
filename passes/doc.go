// Package passes is the money of depots, which tells nobody who spends it: how a pass
// is signed without being seen, spent without being shown, and refused the second time.
// It promises nothing to outsiders.
//
// # The idea
//
// A pass is the right to keep 1, 64 or 4,096 MiB at one depot for 31 days. Whoever
// wants passes draws random numbers and sends them blinded; the issuer signs what it
// cannot read; unblinded they are passes that nobody can tell from those of others.
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
// in the messages of RFC 9577 and RFC 9578 with token type 5, single and batched.
//
// # What a spend gives away
//
// What travels is a Spend: a nonce, and a code made with the pass for one request at
// one depot (Binding). The pass itself never leaves the wallet. So a depot that takes a
// Spend and gives nothing has gained nothing: the Spend is good for that request only.
//
// # What the issuer cannot see
//
// Between Request and Spend stands the blind, which the wallet alone knows: for every
// request there is a blind that leads from it to any given pass. Whatever else could
// link the two is kept equal for all: an issuer has a key for each size of pass and
// half year, listed (Listing) the same for everybody, and a proof that it signed with
// that very key. A wallet compares the list that it sees as an account with the one
// it sees as a stranger.
//
// # What must be durable
//
// A Wallet and a Book, the issuer's, say what is to be written before anything is sent
// that follows from it. Whatever crashes in between: an order asks for the same passes
// again, a request pays with the passes that are reserved for it, and the issuer
// answers what it has answered before. So no pass is lost, and none pays twice.
//
//	key.go     sizes, epochs, keys, and their listing
//	issue.go   Prepare, Sign, Finish: signing what is not seen
//	order.go   vouchers, and orders of passes of several sizes
//	spend.go   passes, and what is shown of them
//	wallet.go  Wallet: which pass pays what
//	book.go    Book: what an issuer never forgets
//
// # Clocks and chance
//
// Nothing here reads a clock. Prepare makes nonces and blinds from a seed, so that
// the same seed makes the same request after a crash. Sign draws chance of its own, for
// the proof: it is a task, and its bytes are not the same twice.
package passes
