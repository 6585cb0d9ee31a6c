package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"playground/config"
	"playground/fault"
)

// keyBlock is the PEM block of a private key (RFC 7468, section 10).
const keyBlock = "PRIVATE KEY"

// instanceKey reads the key that signs what the kernel writes, and makes it at the first start. A log without its key is
// refused: a new key would make every signature in it look forged.
func instanceKey(path, records string) (ed25519.PrivateKey, error) {
	if _, err := os.Lstat(path); err == nil {
		return readKey(path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot look at instance key: %w", err)
	}
	if _, err := os.Lstat(records); err == nil {
		return nil, fault.New(fault.Invalid, "the record log %q has no instance key", records).
			WithHint("restore %s from where the log was backed up, or move the log away to begin a new one", path)
	}
	return makeKey(path)
}

func readKey(path string) (ed25519.PrivateKey, error) {
	text, err := config.SecretFile(path)
	if err != nil {
		return nil, err
	}
	damaged := func() (ed25519.PrivateKey, error) {
		return nil, fault.New(fault.Invalid, "the instance key %q is damaged", path).WithHint("restore it from a backup")
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != keyBlock {
		return damaged()
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok { // the error could hold parts of the key
		return damaged()
	}
	return key, nil
}

// makeKey writes a new key. A crash leaves either no file or a whole one.
func makeKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make instance key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("cannot encode instance key: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".instance-*.key") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("cannot write instance key: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("cannot write instance key: %w", err)
	}
	// Not a rename: a key that somebody else made meanwhile stays.
	if err := os.Link(f.Name(), path); err != nil {
		return nil, fmt.Errorf("cannot write instance key: %w", err)
	}
	// The log that it signs must not outlive it: without its key it is refused.
	dir, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write instance key: %w", err)
	}
	return key, nil
}
