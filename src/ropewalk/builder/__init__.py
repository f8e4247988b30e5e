"""Flows written in Python: functions and references, no strings where a name will do.

`flow` opens one; what its methods return are references (`ref`), and what is done with those makes
expressions (`value`, `function`). `scope` knows what can be read where, `step` what is said of a
node, `nodes` has one method per kind of node. Refused, at the line of the user's file: whatever
would need a value before the run. A new op gets its method in `nodes`.
"""
