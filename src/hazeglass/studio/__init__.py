"""The publisher's and the analyst's side in a browser, on one's own machine; they share nothing.

server      the pages, both sides and the guard on 127.0.0.1; hands out the link, stops the work when it stops
guard       who may ask: the right host, the session and the page secret of the one-time link, a bounded body
folders     which files may be named: those below the folders the studio was started with
jobs        long work in processes of its own, watched by server-sent events; both ends of the pipe
side        what both sides do alike: answer, start, watch, cancel, browse, hand out files
publisher   plans, previews, ledgers, publishing; only its worker opens the data
analyst     opening releases, recovering graphs
web         the pages, their style and their scripts
"""
