package main

import (
	"io"
	"os"

	"playground/config"
	"playground/fault"
	"playground/inference"
	"playground/inference/provider"
)

// maxScript bounds the file of provider "scripted".
const maxScript = 4 << 20

// newBroker returns the broker of the configured provider, or nil when there is none: records and rules work then.
func newBroker(c config.Work) (*inference.Broker, error) {
	provider, err := newProvider(c)
	if provider == nil || err != nil {
		return nil, err
	}
	prices, model := inference.Prices(), c.Model
	switch c.Provider {
	case config.ProviderEcho:
		model = inference.EchoModel
	case config.ProviderScripted:
		model = inference.ScriptedModel
	}
	for name, price := range c.Prices {
		prices[name] = inference.Price{InputPerMTok: price.Input, OutputPerMTok: price.Output}
	}
	return inference.NewBroker(provider, model, prices), nil
}

func newProvider(c config.Work) (inference.Provider, error) {
	o := provider.Options{BaseURL: c.BaseURL, KeyFile: c.KeyFile}
	if c.KeyFile != "" {
		var err error
		o.Key, err = config.SecretFile(c.KeyFile)
		if err != nil && fault.HintOf(err) == "" {
			return nil, fault.Wrap(fault.KindOf(err), err, "cannot read the key of %s", c.Provider).
				WithHint("work.key_file of the configuration names the file: write the key into it, with mode 0600")
		}
		if err != nil {
			return nil, err
		}
	}
	switch c.Provider {
	case config.ProviderAnthropic:
		return provider.NewAnthropic(o)
	case config.ProviderOpenAI:
		return provider.NewOpenAI(o)
	case config.ProviderEcho:
		return inference.Echo{}, nil
	case config.ProviderScripted:
		return readScript(c.Script)
	}
	return nil, nil
}

func readScript(path string) (inference.Provider, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "cannot read script").WithHint("work.script of the configuration names it")
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	text, err := io.ReadAll(io.LimitReader(f, maxScript+1))
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, err, "cannot read script")
	case len(text) > maxScript:
		return nil, fault.New(fault.TooLarge, "the script %q is over %d bytes", path, maxScript)
	}
	script, err := inference.ParseScript(text)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "cannot use script %q", path).WithHint("%s", fault.HintOf(err))
	}
	return script, nil
}
