"""What the specification asks of the tool selector; see requirements.py."""

SELECTION = """
SELECT-FN-1         initialize_selector(tools) and select_tools(query, options); the latest tools count
SELECT-ERROR-1      selecting before tools are registered is a clear error
SELECT-ERROR-2      options of a wrong type or name: all problems at once, with suggestions
SELECT-RESULT-1     success, query, strategy, results, totalMatches, detectedIntent; what a result has
SELECT-RESULT-2     every result explains itself: fields, terms, features
SELECT-RESULT-3     ties break by name
SELECT-STRATEGY-1   exact, fuzzy, semantic, intent, hybrid, legacy_hybrid; default hybrid
SELECT-EXACT-1      exact: substring match on name and description
SELECT-FUZZY-1      fuzzy: words within Levenshtein distance 2
SELECT-SEMANTIC-1   semantic: TF-IDF bag of words, Jaccard
SELECT-INTENT-1     intent: keyword -> intent -> tools for the seven intents
SELECT-INTENT-2     the table of intents is open to users
SELECT-LEGACY-1     legacy_hybrid: 0.35, 0.25, 0.25, 0.15 of these
SELECT-LEGACY-2     past success moves a score by up to 20 % either way
SELECT-HYBRID-1     hybrid finds the tool a request needs
SELECT-HYBRID-2     long requests are split into clauses; a request may need several tools
SELECT-HYBRID-3     quoted literals, e-mails, URLs and small talk weigh less
SELECT-HYBRID-4     short forms in names stand for the words they are short for, and the other way round
SELECT-THRESHOLD-1  the score is a calibrated confidence in [0, 1]; "no fitting tool" is an answer
SELECT-FILTER-1     excludeTools, allowTools and category apply before the cut
SELECT-FILTER-2     equal names in different namespaces; the namespace filter
SELECT-CONTEXT-1    recentTools are preferred among near-equals
SELECT-INDEX-1      tools are added and removed without a rebuild
SELECT-INDEX-2      a registry may change while it is searched; safe for threads
SELECT-TEXT-1       NFKC; camelCase, snake_case and digits split; stems, joined compounds, pairs of CJK characters
SELECT-TEXT-2       what a request's words are worth, and its clauses
SELECT-TYPO-1       typos: for words outside the vocabulary only
SELECT-INPUT-1      empty, 100 kB, Chinese, Arabic, emoji requests
SELECT-INPUT-2      tools in other scripts
SELECT-INPUT-3      tools without description, with 500 parameters
SELECT-LEARN-1      record(query, tool, success): a request like one of before finds the tool that served it
SELECT-LEARN-2      the memory is bounded, the success rate smoothed, both persisted in the store
SELECT-LEARN-3      what was learnt can be seen, exported and deleted
SELECT-LEARN-4      what cannot be learnt is refused
SELECT-LEARN-5      runs and calls of tools feed record where the request is known
SELECT-LEARN-6      learning raises the tools that were used and harms no others
SELECT-LEARN-7      what one source can teach is limited
SELECT-OPTION-3     a score equal to the threshold is kept
SELECT-MODEL-1      embeddings through a protocol; vectors cached by id and text hash
SELECT-MODEL-2      an offline MiniLM without torch, and an offline model for many languages
SELECT-MODEL-3      models of any scale rank alike; a model counts more where words say little
SELECT-MODEL-4      one setting names the model for every interface
SELECT-APP-1        app.selector is kept current as tools and MCP servers come and go
SELECT-CLI-1        ropewalk tools select QUERY
SELECT-CLI-2        ropewalk tools learnt shows, exports and forgets what was learnt
SELECT-LAZY-1       numpy, the stemmer and rapidfuzz are not loaded by import ropewalk or --help
SELECT-CLAUSES-1    a request for several tools brings the tool of each clause
SELECT-SURE-1       a request that no tool fits finds none, however few the tools are
SELECT-QUALITY-1    a quality floor on a sample; the usual threshold and misspelt words cost little
SELECT-BENCH-1      bench/select.py prints the figures for any folder
"""
