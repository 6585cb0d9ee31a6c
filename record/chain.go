package record

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// A link is the hash of a row and of all rows before it.
type link [sha256.Size]byte

func genesis() link { return sha256.Sum256([]byte("playground record log 1")) }

// next returns the link of r, whose signature is sig, after l. The id stands for the seven fields that it covers; with the rest,
// the link covers all that a row holds.
func (l link) next(r Record, sig []byte) link {
	id, _ := hex.DecodeString(r.ID) // what is no id changes the hash, too
	judged := ""
	if r.JudgedBy != nil {
		judged = *r.JudgedBy
	}
	in := append(make([]byte, 0, 256), l[:]...)
	in = append(in, id...)
	in = binary.BigEndian.AppendUint64(in, uint64(r.Sequence))
	in = binary.BigEndian.AppendUint64(in, uint64(r.CreatedAt))
	in = append(binary.BigEndian.AppendUint64(in, uint64(len(judged))), judged...)
	in = append(binary.BigEndian.AppendUint64(in, uint64(len(sig))), sig...)
	return sha256.Sum256(in)
}

// A head is the end of the log as its last writer left it. Rows that are cut off at the end leave a chain that is sound; the head
// shows that they are missing, and its signature that nobody without the key wrote a shorter one. What a head cannot show is an
// older copy of the whole database put in place of this one: the audit file does.
type head struct {
	sequence int64
	chain    link
}

// message is what the head's signature covers; the text keeps it apart from a record's canonical JSON.
func (h head) message() []byte {
	out := binary.BigEndian.AppendUint64([]byte("playground record head 1\x00"), uint64(h.sequence))
	return append(out, h.chain[:]...)
}

// A signer signs for the engine and checks what it signed; without a key it does neither.
type signer struct {
	key    ed25519.PrivateKey
	engine string
}

func (s signer) on() bool { return s.key != nil }

// sign returns the signature of a record's canonical JSON, nil for one that is not the engine's.
func (s signer) sign(actor string, canonical []byte) []byte {
	if !s.on() || actor != s.engine {
		return nil
	}
	return ed25519.Sign(s.key, canonical)
}

func (s signer) signHead(h head) []byte {
	if !s.on() {
		return nil
	}
	return ed25519.Sign(s.key, h.message())
}

func (s signer) verify(message, sig []byte) bool {
	return ed25519.Verify(s.key.Public().(ed25519.PublicKey), message, sig)
}
