import numpy as np,pandas as pd,time
from itertools import combinations
from sklearn.metrics import roc_auc_score
from cxrflow.benchmarks.rows import supervised_pairs as P
def toy(k,n=None,seed=0):
    words=[f"{c}{i}" for c in "abc" for i in range(k)]
    rows,rng=[],np.random.default_rng(seed)
    for t in combinations(words,2):
        a,b=rng.permutation(t); rows.append((f"effusion {a}",f"effusion {b}","paraphrase" if a[0]==b[0] else "contradiction"))
    return pd.DataFrame(rows,columns=["premise","hypothesis","label"])
for k in (5,8):
    t=toy(k); y=(t.label=="paraphrase").to_numpy().astype(int)
    print(k,len(t),"lr",round(roc_auc_score(y,P.out_of_fold(t,y,P._by_words)),3))
    for pen,steps,starts in ((1,100,8),(.3,100,8),(.1,100,8),(.3,100,16)):
        P._PENALTY,P._STEPS,P._STARTS=pen,steps,starts; c=time.process_time()
        print("  ",pen,steps,starts,round(roc_auc_score(y,P.out_of_fold(t,y,P._by_meanings)),3),round(time.process_time()-c,1),flush=True)
