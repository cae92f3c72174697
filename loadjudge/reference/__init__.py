"""The embedded engine: an exact small language model behind vLLM's HTTP surface.

From text to tokens: ``tokenizer``, ``chat`` (the template, both ways), ``corpus``. What is true of
the next token: ``ngram``, ``history``, ``model``, ``store``. What is drawn: ``sampling``,
``speculate``. When: ``cost``, ``kv``, ``request``, ``scheduler``, ``timer``, ``engine``. How it is
served: ``schema``, ``generation``, ``replies``, ``logprobs``, ``metrics``, ``inflight``,
``server``. How it cheats, if asked to: ``redteam``, ``cheats``, ``quantise``. What a judge should
find: ``truth``.
"""
