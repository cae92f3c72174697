"""The Prometheus exporter of judge, sweep and proxy: values in, one page of metrics out."""
